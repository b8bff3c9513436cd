# make demo   train on 800 molecules of data/demo.csv, predict and explain (a few minutes)
# make test   every test
# make lint   style and types
# make settings   write docs/settings.md and the command-line options from the declared settings
# make fuzz   invalid input of every kind for FUZZ_MINUTES minutes (Linux; runs/fuzz keeps findings)
# make kills  commands killed at random moments, KILLS times per fault, and repeated (some minutes)
# make docs   the documentation as a site in site/, with the tutorials run (a few minutes; needs npm)
# make docs-serve   the same on http://127.0.0.1:8000 while you edit; runs the tutorials that changed
# make audit  known vulnerabilities of the pinned dependencies (needs the network)
# make bench  ours, the peers and lower bounds side by side, some minutes (MOLSEPNORM_DATA)
# make results   docs/benchmarks.md from the files of results
# make dist   the package to publish in dist/, the same bytes for the same commit

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := runs/demo
FUZZ_MINUTES ?= 10
FUZZ_SEED ?= 0
KILLS ?= 5

SCRIPTS := .cache/docs
MERMAID := mermaid-11.17.2
SHIM := iframe-worker-1.0.4

.PHONY: install demo test lint settings fuzz kills audit docs docs-serve bench results dist clean

install: $(VENV)/.installed

# editable_mode=compat writes the path of the sources, where type checkers find the package;
# torch first and pinned: a bare `torch` may fetch gigabytes of CUDA. timm and torchvision apart, for
# tests alone: where torch is a CPU build, importing transformers fails with this torchvision beside
$(VENV)/.installed: setup.cfg setup.py pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip "setuptools>=68" wheel
	$(BIN)/pip install --quiet $$(grep '^torch==' constraints.txt)
	$(BIN)/pip install --quiet --constraint constraints.txt --config-settings editable_mode=compat --editable ".[dev]"
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps --target $(VENV)/vision timm torchvision
	touch $@

demo: install
	rm -rf $(DEMO) && mkdir -p $(DEMO)
	head -801 data/demo.csv > $(DEMO)/shapes.csv
	$(BIN)/molsepnorm train --data $(DEMO)/shapes.csv --targets radius_of_gyration --output $(DEMO)/run
	$(BIN)/molsepnorm predict --model $(DEMO)/run --uncertainty --smiles CCO \
		--smiles "CC(=O)Oc1ccccc1C(=O)O" --smiles "Cn1cnc2c1c(=O)n(C)c(=O)n2C"
	$(BIN)/molsepnorm explain --model $(DEMO)/run --smiles "CC(=O)Oc1ccccc1C(=O)O" --output $(DEMO)/aspirin.html
	@echo "Open $(DEMO)/run/report.html and $(DEMO)/aspirin.html. Next, your own table: docs/quick-start.md"

test: install
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

settings: install
	$(BIN)/python docs/site/settings.py

fuzz: install
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)

kills: install
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.kills --kills $(KILLS)

# scripts of other projects: diagrams, and search in a site that is opened without a server
$(SCRIPTS)/mermaid.min.js:
	mkdir -p $(SCRIPTS)
	cd $(SCRIPTS) && npm pack --silent $(subst mermaid-,mermaid@,$(MERMAID))
	tar -xzOf $(SCRIPTS)/$(MERMAID).tgz package/dist/mermaid.min.js > $@.part && mv $@.part $@

$(SCRIPTS)/iframe-worker.js:
	mkdir -p $(SCRIPTS)
	cd $(SCRIPTS) && npm pack --silent $(subst iframe-worker-,iframe-worker@,$(SHIM))
	tar -xzOf $(SCRIPTS)/$(SHIM).tgz package/shim/index.js > $@.part && mv $@.part $@

docs docs-serve: export NO_MKDOCS_2_WARNING = 1

docs: install $(SCRIPTS)/mermaid.min.js $(SCRIPTS)/iframe-worker.js
	$(BIN)/python -m mkdocs build --strict

docs-serve: install $(SCRIPTS)/mermaid.min.js $(SCRIPTS)/iframe-worker.js
	DOCS_EXAMPLES=reuse $(BIN)/python -m mkdocs serve

audit: install
	$(BIN)/pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

# CHEMPROP=/path/to/chemprop names that peer; a stage without its peer measures ours alone
bench: install
	-$(BIN)/pip install --quiet --requirement benchmarks/peers/requirements.txt
	$(BIN)/python benchmarks/speed.py

results: install
	$(BIN)/python benchmarks/page.py

# the archive of sources is packed again, because setuptools writes the time into it
dist: install
	rm -rf dist build/dist && mkdir -p dist build/dist
	git archive HEAD | tar -x -C build/dist
	$(BIN)/pip install --quiet build "setuptools>=68" wheel
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist build/dist
	cd build/dist && tar -xzf ../../dist/*.tar.gz && tar --sort=name --mtime=@$$(git log -1 --format=%ct) \
		--owner=0 --group=0 --numeric-owner -c molsepnorm-*/ | gzip -n > $(CURDIR)/dist/$$(basename ../../dist/*.tar.gz)

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache
