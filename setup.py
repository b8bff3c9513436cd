"""The packages. All else is declared in setup.cfg."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["molsepnorm", "molsepnorm.*"]), "molsepnorm.configs"],
    # at the top of the tree, where people look for it, and inside the package once installed
    package_dir={"molsepnorm.configs": "configs"},
)
