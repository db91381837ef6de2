"""Tests that cannot pass compiled, with the reason."""

from __future__ import annotations

_LINES = "looks at the frames of a traceback: code behind a graph break is a frame of its own"
_LIFETIME = (
    "counts references, or asks for the moment at which an object dies: compiled code holds objects a little longer"
)

KNOWN: dict[str, str] = {
    "test_contextlib.ContextManagerTestCase.test_contextmanager_traceback": _LINES,
    "test_contextlib.TestExitStack.test_exit_exception_traceback": _LINES,
    "test_raise.TestTracebackType.test_attrs": _LINES,
    "test_raise.TestContext.test_3611": _LIFETIME,
    "test_generators.FinalizationTest.test_frame_resurrect": _LIFETIME,
    "test_generators.FinalizationTest.test_refcycle": _LIFETIME,
    "test_scope.ScopeTests.testLeaks": _LIFETIME,
    "test_super.TestSuper.test_obscure_super_errors": "the error of `super()` after its first argument was deleted",
    "test_list.ListTest.test_free_after_iterating": _LIFETIME,
    "test_dict.DictTest.test_free_after_iterating": _LIFETIME,
    "test_tuple.TupleTest.test_free_after_iterating": _LIFETIME,
}
