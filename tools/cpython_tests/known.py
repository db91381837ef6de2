"""Tests that cannot pass compiled, with the reason."""

from __future__ import annotations

_LINES = "looks at the frames of a traceback: code behind a graph break is a frame of its own"
_LIFETIME = (
    "counts references, or asks for the moment at which an object dies: compiled code holds objects a little longer"
)
_SETTRACE = "watches lines with `sys.settrace`: what is traced is not run line by line"
_UNROLLED = "a loop of many thousand turns over plain numbers is unrolled, which takes longer than a test may"
_COLLECTIONS = "collects garbage many times, and this process holds much more than a plain one"
_SAME_TEXT = "asks whether equal strings are one object, which the language leaves open"
_SIZE = "asks how many bytes the table of a dictionary takes: one that is rebuilt has a table of its own"

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
    "test_patma.TestTracing.test_default_capture": _SETTRACE,
    "test_patma.TestTracing.test_default_wildcard": _SETTRACE,
    "test_patma.TestTracing.test_no_default": _SETTRACE,
    "test_patma.TestTracing.test_only_default_capture": _SETTRACE,
    "test_patma.TestTracing.test_only_default_wildcard": _SETTRACE,
    "test_patma.TestTracing.test_unreachable_code": _SETTRACE,
    "test_dict.DictTest.test_copy_fuzz": _UNROLLED,
    "test_dict.DictTest.test_popitem": _UNROLLED,
    "test_range.RangeTest.test_range_iterators": _UNROLLED,
    "test_enumerate.TestBig.test_pickle": _UNROLLED,
    "test_tuple.TupleTest.test_bug7466": _COLLECTIONS,
    "test_dict.DictTest.test_track_dynamic": _COLLECTIONS,
    "test_descr.ClassPropertiesAndMethods.test_cycle_through_dict": _COLLECTIONS,
    "test_dict.DictTest.test_str_nonstr": _SAME_TEXT,
    "test_operator.COperatorTestCase.test_is": _SAME_TEXT,
    "test_operator.COperatorTestCase.test_is_not": _SAME_TEXT,
    "test_operator.PyOperatorTestCase.test_is": _SAME_TEXT,
    "test_operator.PyOperatorTestCase.test_is_not": _SAME_TEXT,
    "test_dict.DictTest.test_splittable_popitem": _SIZE,
    "test_descr.SharedKeyTests.test_subclasses": _SIZE,
    "test_class.ClassTests.testDel": _LIFETIME,
    "test_userlist.UserListTest.test_free_after_iterating": _LIFETIME,
    "test_iter.TestCase.test_free_after_iterating": _LIFETIME,
    "test_set.TestSet.test_free_after_iterating": _LIFETIME,
    "test_set.TestSetSubclass.test_free_after_iterating": _LIFETIME,
    "test_set.TestSet.test_weakref": _LIFETIME,
    "test_set.TestSetSubclass.test_weakref": _LIFETIME,
    "test_deque.TestSubclass.test_weakref": _LIFETIME,
    "test_functools.TestPartialC.test_weakref": _LIFETIME,
    "test_functools.TestPartialCSubclass.test_weakref": _LIFETIME,
    "test_functools.TestPartialPy.test_weakref": _LIFETIME,
    "test_functools.TestPartialPySubclass.test_weakref": _LIFETIME,
    "test_functools.TestLRUC.test_lru_cache_weakrefable": _LIFETIME,
    "test_functools.TestLRUPy.test_lru_cache_weakrefable": _LIFETIME,
    "test_copy.TestCopy.test_copy_weakkeydict": _LIFETIME,
    "test_copy.TestCopy.test_copy_weakvaluedict": _LIFETIME,
    "test_copy.TestCopy.test_deepcopy_weakkeydict": _LIFETIME,
    "test_copy.TestCopy.test_deepcopy_weakvaluedict": _LIFETIME,
    "test_enumerate.TestReversed.test_bug1229429": _LIFETIME,
    "test_exceptions.ExceptionTests.testExceptionCleanupState": _LIFETIME,
    "test_exceptions.ExceptionTests.test_3114": _LIFETIME,
    "test_exceptions.ExceptionTests.test_unraisable": _LIFETIME,
    "test_descr.ClassPropertiesAndMethods.test_delete_hook": _LIFETIME,
    "test_descr.ClassPropertiesAndMethods.test_subtype_resurrection": _LIFETIME,
    "test_exceptions.PEP626Tests.test_lineno_after_other_except": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_after_raise_in_except": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_after_raise_in_with_exit": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_after_raise_simple": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_after_with": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_in_finally_except": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_in_finally_normal": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_in_named_except": _LINES,
    "test_exceptions.PEP626Tests.test_lineno_in_try": _LINES,
    "test_exceptions.PEP626Tests.test_missing_lineno_shows_as_none": _LINES,
}
