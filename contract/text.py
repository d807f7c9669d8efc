"""Text measures both sides of the wire must agree on: token estimate, clipping by code points, what can be stored."""

CLIP_MARKER = "… [{n} more characters]"


def estimate_tokens(text: str) -> int:
    """Return the estimated token count of `text`: one token per started four code points."""
    return -(-len(text) // 4)


def clip(text: str, limit: int) -> str:
    """Return `text` within `limit` code points; a cut text ends in a marker naming how much is missing.

    `limit` is in code points and must leave room for the marker (64 is plenty); smaller limits cut hard.
    """
    if len(text) <= limit:
        return text
    keep = limit
    for _ in range(4):  # a longer count needs a longer marker, which cuts more
        keep = limit - len(CLIP_MARKER.format(n=len(text) - keep))
    return text[:keep] + CLIP_MARKER.format(n=len(text) - keep) if keep > 0 else text[:limit]


def storable(text: str) -> str:
    """Return `text` without what the API cannot keep: NUL characters and half surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
