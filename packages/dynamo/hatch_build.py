"""Build hook: compiles `csrc/*.c` into `triptych_dynamo._eval_frame` for wheels and editable installs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

MODULE = "triptych_dynamo._eval_frame"


class FrameHookBuild(BuildHookInterface):
    """Runs setuptools' `build_ext` once and hands the library to hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, then place the library beside the sources (editable) or inside the wheel."""
        library = self._compile()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        target = f"src/triptych_dynamo/{library.name}"
        if version == "editable":
            shutil.copy2(library, Path(self.root) / target)
        else:
            build_data["force_include"][str(library)] = f"triptych_dynamo/{library.name}"

    def clean(self, versions: list[str]) -> None:
        """Remove what `initialize` made."""
        shutil.rmtree(Path(self.root) / "build", ignore_errors=True)
        for library in (Path(self.root) / "src/triptych_dynamo").glob("_eval_frame*.so"):
            library.unlink()

    def _compile(self) -> Path:
        root = Path(self.root)
        extension = Extension(
            MODULE,
            sources=[str(path.relative_to(root)) for path in sorted((root / "csrc").glob("*.c"))],
            include_dirs=[str(root / "csrc")],
            define_macros=[("Py_BUILD_CORE_MODULE", "1")],
            extra_compile_args=["-O2", "-std=c11", "-fvisibility=hidden"],
        )
        distribution = Distribution({"name": "triptych-dynamo", "ext_modules": [extension]})
        command = build_ext(distribution)
        command.build_lib, command.build_temp, command.force = str(root / "build/lib"), str(root / "build/temp"), True
        command.ensure_finalized()
        command.run()
        return Path(command.get_ext_fullpath(MODULE))
