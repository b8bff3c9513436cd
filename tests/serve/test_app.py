"""The addresses of the server: the same predictions as `predict`, within limits, for any input."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from urllib.parse import unquote

import httpx
import numpy as np
import pandas as pd
import pytest
import uvicorn
from click.testing import CliRunner
from starlette.testclient import TestClient

import molsepnorm.serve.service
from molsepnorm.cli import main
from molsepnorm.cli.serve import _listening
from molsepnorm.model.parts import NetworkPart
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict import Predictor
from molsepnorm.serve import Limits, Service
from molsepnorm.serve.app import create_app
from molsepnorm.tasks import ExtraInputs, FeatureColumn

ANY = ["CCO", "C1CC", "c1ccccc1O", "", "CCCCN"]


@pytest.fixture(scope="module")
def client(service: Service) -> TestClient:
    return TestClient(create_app(service, {"testserver"}), raise_server_exceptions=False)


def _close(found, expected) -> bool:
    """A kernel regression of labels without noise amplifies the rounding of other batches."""
    return found == pytest.approx(expected, rel=1e-3)


@pytest.mark.claim(
    "The page and POST /predict of serve give the predictions of predict, also to a hundred "
    "requests at once, and a reason for any other request."
)
def test_predictions_are_those_of_the_library(client, models):
    body = {"smiles": ANY, "model": "size", "level": 0.8, "domain": True}
    found = client.post("/predict", json=body).json()["predictions"]
    expected = Predictor(models["size"], level=0.8, domain=True).predict(ANY)
    assert [each["smiles"] for each in found] == ANY
    for one, other in zip(found, expected, strict=True):
        assert one["error"] == other.error
        if other.error is None:
            assert _close(one["values"], other.values)
            assert _close(one["uncertainty"], other.uncertainty)
            assert one["domain"]["nearest_smiles"] == other.domain["nearest_smiles"]
        else:
            assert one["values"] is None and one["uncertainty"] == one["domain"] == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.smi", "CCO ethanol\nC1CC broken\n\nc1ccccc1O phenol\n"),
        ("a.csv", 'id,SMILES,note\n1,CCO,"a,\nb"\n2,,\n3,C1CC,=1+1\n'),
        ("a.TSV", "smiles\tx\nCCO\t1\nCC\t2\n"),
        ("many.csv", "smiles\n" + "".join(f"{'C' * (1 + n % 9)}O\n" for n in range(290))),
    ],
)
def test_a_table_is_that_of_the_command(client, saved, tmp_path, name, content):
    """Rows, their order, columns and texts; numbers up to rounding, since other rows share a
    batch."""
    query = {"name": name, "model": "size", "level": 0.9, "domain": True}
    response = client.post("/api/table", params=query, content=content.encode())
    assert response.status_code == 200, response.text
    path = tmp_path / name
    path.write_text(content)
    command = ["predict", "--model", str(saved), "-i", str(path), "-o", str(tmp_path / "out.csv")]
    done = CliRunner().invoke(main, [*command, "--uncertainty", "--domain", "--processes", "1"])
    assert done.exit_code == 0, done.output
    expected = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    found = pd.read_csv(io.StringIO(response.text), dtype=str, keep_default_na=False)
    assert list(found) == list(expected) and len(found) == len(expected)
    for column in expected:
        if column.startswith("<b>size_") or column == "similarity":
            own, other = (pd.to_numeric(table[column]) for table in (found, expected))
            np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-4)
        else:
            assert found[column].tolist() == expected[column].tolist()
    assert int(response.headers["x-failed"]) == (expected["error"] != "").sum()
    assert unquote(response.headers["x-smiles-column"]) in expected


def test_contributions_add_up_to_the_prediction(client):
    found = client.post("/api/explain", json={"smiles": "OCC(C)C", "model": "size"}).json()
    own = found["targets"]["<b>size"]
    assert own["base"] + sum(own["atoms"]) == pytest.approx(own["value"], rel=1e-3)
    parts = [each["contributions"]["<b>size"] for each in found["fragments"]["brics"]]
    assert sum(parts) == pytest.approx(sum(own["atoms"]), rel=1e-3)
    assert own["svg"].lstrip().startswith("<?xml") and "<script" not in own["svg"]


def test_each_molecule_of_a_row_is_explained_and_drawn(client):
    body = {"smiles": "OCC(C)C", "model": "pairs", "columns": {"solvent": ["0.3 CCO + 0.7 O"]}}
    found = client.post("/api/explain", json=body).json()
    parts = [each["targets"]["shift"] for each in found["further"]["solvent"]]
    own = found["targets"]["shift"]
    assert sum(each["value"] for each in parts) == pytest.approx(own["inputs"]["solvent"])
    assert all("</svg>" in each["svg"] for each in [own, *parts])
    body["columns"] = {"solvent": ["C" * 81]}
    assert client.post("/api/explain", json=body).status_code == 413
    mixture = client.get("/api/drawing", params={"smiles": "0.3 CCO + 0.7 O"}).text
    assert mixture == client.get("/api/drawing", params={"smiles": "CCO.O"}).text


# --- models with a card ---


def test_the_card_describes_the_targets(client, cards):
    found = {each["name"]: each for each in client.get("/api/models").json()["models"]}
    assert found["size"]["end_points"] == {} and found["size"]["reference"] == ""
    own = found["profile"]
    assert own["reference"] == "three alkanes" and [*own["end_points"]] == ["length", "long"]
    for name, about in own["end_points"].items():
        expected = asdict(cards["profile"].end_points[name])
        del expected["reference"]
        assert about == {**expected, "good": [None, 5.0], "tolerable": [None, 8.0]}


def test_percentiles_are_those_of_the_card(client):
    query = {"name": "a.smi", "model": "profile", "reference": True}
    response = client.post("/api/table", params=query, content=b"CCO\nC1CC\nCCCCCCCl\n")
    found = pd.read_csv(io.StringIO(response.text))
    for name in ("length", "long"):
        expected = np.interp(found[f"{name}_pred"], [0, 1, 20], [0, 50, 100])
        np.testing.assert_allclose(found[f"{name}_percentile"], expected, rtol=1e-4)
    assert "known_percentile" not in found


def test_targets_are_explained_one_by_one_at_the_cost_of_one(client, monkeypatch):
    computed = []
    plain = molsepnorm.serve.service.explain

    def counting(predictor, smiles, columns):
        computed.append(smiles)
        return plain(predictor, smiles, columns)

    monkeypatch.setattr("molsepnorm.serve.service.explain", counting)
    body = {"smiles": "CCCCN", "model": "profile"}
    every = client.post("/api/explain", json=body).json()
    for name in ("length", "known"):
        one = client.post("/api/explain", json={**body, "targets": [name]}).json()
        assert one["targets"] == {name: every["targets"][name]}
    assert computed == [["CCCCN"]]


def test_alerts_have_atoms_that_a_drawing_marks(client):
    alerts = client.get("/api/alerts", params={"smiles": "Oc1ccccc1O"}).json()["alerts"]
    assert [each["catalog"] for each in alerts] == ["PAINS", "Brenk", "NIH"]
    plain, marked, none = (
        client.get("/api/drawing", params={"smiles": "Oc1ccccc1O", "atoms": atoms}).text
        for atoms in ([], alerts[0]["atoms"], [-1, 99])
    )
    assert plain == none != marked
    assert client.get("/api/alerts", params={"smiles": "C1CC"}).status_code == 400


# --- limits and wrong requests ---

JSON = {"content-type": "application/json"}
HOSTILE = [
    ("/predict", {"json": {"smiles": ["C"] * 301}}, 413, "up to 300 molecules"),
    ("/predict", {"json": {"smiles": ["C"], "model": "siez"}}, 400, "Did you mean 'size'?"),
    ("/predict", {"content": b"[" * 100_000, "headers": JSON}, 400, "error parsing the body"),
    ("/predict", {"content": rb'{"smiles": ["C", "\ud800"]}', "headers": JSON}, 422, "smiles.1: "),
    ("/api/table?name=a.csv", {"content": b"a,b\n1,2\n"}, 400, "no column 'smiles'"),
    ("/api/table?name=a.csv", {"content": b"x" * 500_001}, 413, "larger than 0.5 MB"),
    ("/api/table?name=a.tsv", {"content": b'"\n"' + b"\tx" * 2000 + b"\nC"}, 413, "2,001 columns"),
    ("/api/table?name=a.csv.gz", {"content": b"\x1f\x8b"}, 400, "not compressed"),
    ("/api/table?name=../../x", {"content": b"C"}, 400, "is accepted as .csv"),
    ("/api/explain", {"json": {"smiles": "C1CC"}}, 400, "unclosed ring"),
    ("/api/explain", {"json": {"smiles": "C" * 81}}, 413, "81 atoms, and the server explains"),
]


@pytest.mark.parametrize(("path", "request_", "status", "message"), HOSTILE, ids=str)
def test_wrong_requests_have_a_reason(client, path, request_, status, message):
    response = client.post(path, **request_)
    assert response.status_code == status, response.text
    assert message in response.json()["error"]
    assert "Traceback" not in response.text and "/tmp" not in response.text


@pytest.mark.parametrize("smiles", ["<script>alert(1)</script>", "C\0C", "C" * 5000, "\u202e"])
def test_hostile_smiles_are_failed_rows(client, smiles):
    (found,) = client.post("/predict", json={"smiles": [smiles]}).json()["predictions"]
    assert found["smiles"] == smiles and found["values"] is None and found["error"]
    assert client.get("/api/drawing", params={"smiles": smiles}).status_code == 400


def test_other_hosts_and_origins_are_refused(client):
    for host in ("evil.example", "[::1"):
        assert client.get("/", headers={"host": host}).status_code == 400
    for origin, status in (("http://evil.example", 403), ("null", 403), ("http://testserver", 200)):
        response = client.post("/predict", json={"smiles": ["C"]}, headers={"origin": origin})
        assert response.status_code == status


def test_a_body_without_a_length_is_refused(client):
    for path in ("/predict", "/api/explain", "/api/table?name=a.smi"):
        parts = (b"C\n" * 1000 for _ in range(1000))
        response = client.post(path, content=parts, headers=JSON)
        assert response.status_code == 411, response.text
        assert "send a Content-Length" in response.json()["error"]
        assert response.headers["x-content-type-options"] == "nosniff"


def test_every_response_has_the_headers_of_security(client):
    for path in ("/", "/page.js", "/api/models", "/page.py", "/openapi.json"):
        response = client.get(path)
        assert response.status_code == (404 if path == "/page.py" else 200)
        headers = response.headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_time_of_a_request_is_limited(models, monkeypatch):
    service = Service(models, Limits(seconds=0.05))
    quick = TestClient(create_app(service))
    with service._lock:  # as another request would
        response = quick.post("/predict", json={"smiles": ["C"]})
    assert response.status_code == 503 and "busy" in response.json()["error"]
    ticks = iter(range(1000))
    monkeypatch.setattr("molsepnorm.serve.service.time.monotonic", lambda: next(ticks))
    response = quick.post("/api/table?name=a.smi", content=b"C\n" * 300)
    assert response.status_code == 503 and "took more than 0.05 seconds" in response.json()["error"]


def test_large_molecules_have_a_turn_each(models, monkeypatch):
    """A block of 128 of them would take longer than the time limit and hold up all others."""
    service, sizes = Service(models), []
    plain = Predictor.predicted

    def counting(self, rows):
        rows = list(rows)
        sizes.append(len(rows))
        return plain(self, iter(rows))

    monkeypatch.setattr(Predictor, "predicted", counting)
    smiles = ["C" * 990, "C" * 991, "CCO", "C" * 992]
    assert [len(each.smiles) for each in service.predict(smiles)[0]] == [990, 991, 3, 992]
    found = pd.read_csv(io.StringIO(service.table("\n".join(smiles).encode(), "a.smi").csv))
    assert found["smiles"].tolist() == smiles
    assert [size for size in sizes if size] == [1, 2, 1] * 2


def test_the_page_loads_while_all_threads_wait(models):
    """Up to 40 requests wait in threads; the files of the page need none of them."""
    service = Service(models, Limits(seconds=20))
    listener = _listening("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def ask(_: int) -> int:
        return httpx.post(f"{address}/predict", json={"smiles": ["C"]}, timeout=30).status_code

    with ThreadPoolExecutor(60) as pool:
        with service._lock:  # as another request would
            answers = [pool.submit(ask, number) for number in range(60)]
            time.sleep(1)
            for path in ("/", "/page.css", "/page.js", "/api/models", "/openapi.json"):
                assert httpx.get(address + path, timeout=5).status_code == 200
            assert not any(each.done() for each in answers)
        assert [each.result() for each in answers] == [200] * 60
    server.should_exit = True
    thread.join(timeout=10)


def test_a_failure_of_the_server_shows_no_details(models, monkeypatch):
    service = Service(models)
    monkeypatch.setattr(service, "predict", lambda *args: 1 / 0)
    failing = TestClient(create_app(service), raise_server_exceptions=False)
    response = failing.post("/predict", json={"smiles": ["C"]})
    assert response.status_code == 500
    assert response.json() == {"error": "the server failed; its log has the reason"}


def test_a_hundred_requests_at_once_are_right(address, models):
    expected = Predictor(models["size"]).predict([f"{'C' * (1 + n % 12)}O" for n in range(100)])

    def ask(number: int) -> dict:
        body = {"smiles": [f"{'C' * (1 + number % 12)}O", f"C{number}"]}
        return httpx.post(f"{address}/predict", json=body, timeout=60).json()

    with ThreadPoolExecutor(100) as pool:
        answers = [*pool.map(ask, range(100))]
    for number, (answer, own) in enumerate(zip(answers, expected, strict=True)):
        good, bad = answer["predictions"]
        assert _close(good["values"], own.values)
        # the reasons, which are read from RDKit's log, are those of the same request
        assert f"'C{number}'" in bad["error"]


def test_numbers_outside_the_range_of_training_are_noted(models):
    model = models["size"]
    config = replace(model.network.config, molecule_features=1, outputs=model.task.outputs)
    inputs = ExtraInputs((FeatureColumn("t", low=20, high=59),))
    part = NetworkPart(Graphormer(config), inputs)
    service = Service({"t": replace(model, parts=(part,), weights=(1.0,), calibration=())})
    client = TestClient(create_app(service))
    for number, count in ((30, 0), (2000, 1)):
        body = {"smiles": ["CCO"] * 200, "columns": {"t": [number] * 200}}
        found = client.post("/predict", json=body).json()
        assert len(found["predictions"]) == 200 and len(found["notes"]) == count
    assert "'t' has numbers outside the range of the training rows, 20 to 59" in found["notes"][0]
