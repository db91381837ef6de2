"""What several tests of this folder say of errors."""


def texts(*thunks):
    """The errors of calls, as class and text; nothing for a call that raises none."""
    found = []
    for thunk in thunks:
        try:
            thunk()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found
