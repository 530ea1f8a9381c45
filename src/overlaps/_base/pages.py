"""Where the documentation explains what an error or a warning says."""


def see(page: str, section: str) -> str:
    """Last sentence of a message: a page of docs/ and one of its sections, which a test looks up."""
    return f" More: docs/{page}.md, '{section}'."
