"""Ground floor, no science: compilation policy, checks of input, records, progress bars, the version.

``check`` words every refusal: it names the argument, what came, what was expected, what to try. ``record`` gives frozen
records equality and a registry by name, ``Record.kinds``. ``jit`` is the one place where compilation policy is decided.
"""
