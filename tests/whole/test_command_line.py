"""The command line."""

import pytest

import overlaps as ov
from overlaps.__main__ import main


def test_command_line(capsys):
    main(["info"])
    assert ov.__version__ in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([])
    assert "demo" in capsys.readouterr().err
