"""Compiling the scans of segments and of texts into object code that needs neither numba nor Python.

Only imported where nothing was kept from an earlier compilation, for numba takes long to import.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.errors import NumbaError

from replica_audit.formats import crc_kernel as crc
from replica_audit.formats.dump_kernel import line_scanner
from replica_audit.formats.native_code import SYMBOL, TEXT_SYMBOL
from replica_audit.formats.segment_kernel import scanner

_CRC_INSTRUCTIONS = ("sse4.2", "crc32", "pclmul")


def object_code(machine: Any, features: str) -> bytes:
    """Both scans as object code for a machine, with nothing left in it that numba or Python would have to provide.

    Args:
        machine: the target machine of llvmlite.
        features: of its processor, as llvmlite tells them.

    Raises:
        RuntimeError: it cannot be compiled.
    """
    has_instructions = all(f"+{name}" in features.split(",") for name in _CRC_INSTRUCTIONS)
    try:
        segments = scanner(crc.crc32c_by_instruction if has_instructions else crc.crc_by_tables(crc.CRC32C_POLYNOMIAL))
        texts = line_scanner()
    except NumbaError as error:
        raise RuntimeError(f"numba does not compile the scan: {error}") from error
    module = _bare(segments, SYMBOL)
    module.link_in(_bare(texts, TEXT_SYMBOL))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    needed = {value.name for value in (*module.functions, *module.global_variables) if value.is_declaration}
    if unknown := [name for name in needed - {"pread"} if not name.startswith("llvm.")]:
        raise RuntimeError(f"the compiled scan needs {', '.join(sorted(unknown))}")
    return bytes(machine.emit_object(module))


def _bare(compiled: Any, symbol: str) -> Any:
    """The code of a function under a name of its own; the wrapper by which Python would call it goes, and with it what that needs."""
    (overload,) = compiled.overloads.values()
    module = llvm.parse_assembly(overload.library.get_llvm_str())
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = "internal"
    entry = module.get_function(overload.fndesc.llvm_func_name)
    entry.name, entry.linkage = symbol, "external"
    return module
