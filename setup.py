"""What pyproject.toml cannot say: a wheel and a source archive carry the commit that they were built from."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # a build backend does not look for modules in the folder that it builds

from workers.node import code_version  # noqa: E402


class BuildPy(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # an editable installation is the checkout itself, which git knows
            code_version.write_record(ROOT, Path(self.build_lib))


class Sdist(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        code_version.write_record(ROOT, Path(base_dir))


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
