"""The version, and the versions of Python and of the packages that the library uses."""

import platform

__version__ = "0.1.0"


def versions():
    """Two lines with all versions, for a report or a result."""
    import numba
    import numpy
    import scipy

    return (
        f"overlaps {__version__}    python {platform.python_version()}    {platform.machine()}\n"
        f"numpy {numpy.__version__}    scipy {scipy.__version__}    numba {numba.__version__}"
    )
