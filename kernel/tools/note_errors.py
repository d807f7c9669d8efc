"""Owns how an operation on notes says that it was not done."""


class NoteError(Exception):
    """An operation on notes was not done. `code` is one word; `may_have_changed` tells that it is not known
    whether a note was changed."""

    def __init__(self, code: str, text: str, *, may_have_changed: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.may_have_changed = may_have_changed
