"""What `compile` accepts and how it says no."""

import pytest
from triptych import errors, support
from triptych.settings import Settings


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"mode": "max-autotune", "options": {"x": 1}}, errors.InvalidOptionError, "mode and options were both given"),
        ({"dynamic": "yes"}, TypeError, "dynamic must be True, False or None"),
        ({"options": [("a", 1)]}, TypeError, "options must be a mapping"),
        ({"on_error": "eagre"}, ValueError, "did you mean 'eager'"),
        ({"options": {"use_aoti": "yes"}}, errors.InvalidOptionError, "'use_aoti' is True or False, not 'yes'"),
        ({"options": {"guard_filter_fn": 3}}, errors.InvalidOptionError, "a function of guard entries"),
        ({"recompile_limit": 0}, ValueError, "recompile_limit must be a positive integer"),
    ],
)
def test_bad_settings(given, error, text):
    with pytest.raises(error, match=text):
        Settings(**given)


def test_backend_keywords_only_when_given():
    assert Settings().backend_keywords() == {}
    assert Settings(mode="default").backend_keywords() == {}
    assert Settings(options={}).backend_keywords() == {}
    assert Settings(mode="max-autotune").backend_keywords() == {"mode": "max-autotune"}
    assert Settings(options={"a": 1}).backend_keywords() == {"options": {"a": 1}}


def test_options_of_our_own_are_taken_out():
    settings = Settings(options={"use_aoti": True, "guard_filter_fn": len, "exact": True})
    assert settings.use_aoti and settings.guard_filter_fn is len and settings.options == {"exact": True}
    assert Settings(options={"use_aoti": False}).options is None


def test_errors_are_runtime_errors():
    for error in (errors.InvalidBackendError, errors.InvalidModeError, errors.InvalidOptionError):
        assert issubclass(error, RuntimeError)


def test_suggestion_lists_what_is_close_or_everything():
    assert errors.suggestion("indcutor", ["eager", "inductor"]) == "did you mean 'inductor'?"
    assert errors.suggestion("zzz", ["b", "a"]) == "known: a, b"


@pytest.mark.parametrize("version", [(3, 10), (3, 15), (4, 0)])
def test_unsupported_python(version):
    text = rf"triptych.compile is not supported on Python {version[0]}\.{version[1]}.*Python 3\.11 to 3\.14"
    with pytest.raises(RuntimeError, match=text):
        support.check_python(version)


def test_free_threaded_python():
    with pytest.raises(errors.UnsupportedVersionError, match="free-threaded"):
        support.check_python((3, 13), free_threaded=True)


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_supported_python(version):
    support.check_python(version, free_threaded=False)


@pytest.mark.parametrize(("value", "disabled"), [("1", True), ("true", True), ("0", False), ("", False)])
@pytest.mark.parametrize("variable", ["TRIPTYCH_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_environment_switch(monkeypatch, variable, value, disabled):
    for name in ("TRIPTYCH_DISABLE", "TORCH_COMPILE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert Settings().disable is disabled
