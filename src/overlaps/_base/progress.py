"""Progress bars, only when asked for."""

from contextlib import contextmanager

from . import check


@contextmanager
def bar(show, total, unit):
    """Yield a function of the amount done so far (None when no bar is wanted); a function takes the bar's place."""
    if callable(show):
        yield show
        return
    if not check.flag("progress", show):
        yield None
        return
    from tqdm.auto import tqdm

    form = "{desc}{percentage:3.0f}%|{bar}| {n:.6g}/{total:.6g} {unit} [{elapsed}<{remaining}]"
    with tqdm(total=total, unit=unit, bar_format=form) as tq:

        def tick(done):
            tq.update(done - tq.n)

        yield tick
