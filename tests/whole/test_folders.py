"""The folder of compiled kernels on a shared machine: what others could have written is neither read nor followed."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import answer
from numba.core import config

from overlaps._base import folders, kernel_cache

pytestmark = pytest.mark.skipif(folders.pwd is None, reason="rights of POSIX")
STRANGER = 12345  # a user whose files these would be


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A folder that the user named, not there yet, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OVERLAPS_QUIET", "0")
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "named"))
    for name in ("folder", "writable"):
        monkeypatch.setattr(folders, name, getattr(folders, name).__wrapped__)
    monkeypatch.setattr(kernel_cache, "folder", folders.folder)
    return tmp_path / "named"


def kernels(named):
    return named / "overlaps" / "kernels"


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_the_folder_is_the_users_alone_whatever_the_umask(named, umask):
    before = os.umask(umask)
    try:
        assert answer() == (6.5, False) and answer() == (6.5, True)
    finally:
        os.umask(before)
    for made in (named, named / "overlaps", kernels(named)):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (file,) = kernel_cache.kernel_files()
    assert not file.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@pytest.mark.parametrize("part", ["named", "overlaps", "kernels"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_that_others_may_write_is_none(named, part, mode, capsys):
    """Sticky or not: whoever comes first makes what lies in it."""
    assert answer() == (6.5, False)
    path = {"named": named, "overlaps": named / "overlaps", "kernels": kernels(named)}[part]
    path.chmod(mode)
    (file,) = kernels(named).iterdir()
    assert folders.folder() is None and not folders.writable() and kernel_cache.kernel_files() == []
    assert f"because others may write to {path}; make it your own and writable for you only" in capsys.readouterr().err
    assert answer() == (6.5, False) and [*kernels(named).iterdir()] == [file]
    path.chmod(0o700)
    assert answer() == (6.5, True)


def test_nothing_is_made_where_others_may_write(named):
    named.mkdir()
    named.chmod(0o1777)
    assert folders.folder() is None and [*named.iterdir()] == []


def test_parents_beyond_the_named_folder_may_be_anybodys(named, monkeypatch):
    """As /tmp is; the rights below it are enough."""
    named.parent.chmod(0o1777)
    assert answer() == (6.5, False) and answer() == (6.5, True)
    monkeypatch.setattr(config, "CACHE_DIR", "")  # now in a home of this kind
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert answer() == (6.5, False) and answer() == (6.5, True)
    named.parent.chmod(0o777)
    assert folders.folder() is None


@pytest.mark.parametrize("mate", ["alone", "with others", "of another name", "unknown"])
def test_a_group_of_the_owner_alone_is_the_owner(named, mate, monkeypatch):
    """Where each user has such a group, new folders are writable for it; in any other group somebody else is."""
    owner = SimpleNamespace(pw_name="me", pw_gid=os.getegid())

    def group(number):
        if mate == "unknown":
            raise KeyError(number)
        name = "staff" if mate == "of another name" else "me"
        return SimpleNamespace(gr_gid=number, gr_name=name, gr_mem=["you"] if mate == "with others" else [])

    monkeypatch.setattr(folders, "pwd", SimpleNamespace(getpwuid=lambda _: owner))
    monkeypatch.setattr(folders, "grp", SimpleNamespace(getgrgid=group))
    named.mkdir()
    os.chown(named, -1, os.getegid())
    named.chmod(0o770)
    assert (folders.folder() is not None) == (mate == "alone")


def test_folders_and_files_of_another_user_are_not_read(named, monkeypatch, capsys):
    """By the number that the system gives, seen from somebody else: everything here is a stranger's."""
    assert answer() == (6.5, False)
    real = kernels(named).stat().st_uid
    monkeypatch.setattr(folders, "_is_own", lambda found: found.st_uid not in (real, 0))
    assert answer() == (6.5, False) and folders.folder() is None
    assert f"because {named} belongs to another user" in capsys.readouterr().err
    monkeypatch.setattr(folders, "why_unsafe", lambda: "")  # a file alone
    assert answer() == (6.5, False)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only the super-user gives files away")
@pytest.mark.parametrize("part", ["named", "overlaps", "kernels", "file"])
def test_what_a_stranger_owns_is_not_read(named, part):
    assert answer() == (6.5, False)
    (file,) = kernels(named).iterdir()
    path = {"named": named, "overlaps": named / "overlaps", "kernels": kernels(named), "file": file}[part]
    os.chown(path, STRANGER, STRANGER)
    assert answer() == (6.5, False)
    assert answer() == (6.5, part == "file")  # which is replaced by one of this user
    assert file.stat().st_uid == 0


def test_a_file_that_others_may_write_is_compiled_anew(named):
    answer()
    (file,) = kernels(named).iterdir()
    file.chmod(0o666)
    assert answer() == (6.5, False) and answer() == (6.5, True)
    os.rename(file, file.with_name("planted"))
    file.symlink_to(file.with_name("planted"))
    assert answer() == (6.5, False) and not file.is_symlink()


def test_a_folder_may_be_a_link_to_a_safe_one(named, tmp_path):
    """As where a home is small, and caches lie on another disk."""
    far = tmp_path / "far"
    far.mkdir(mode=0o700)
    named.symlink_to(far)
    assert answer() == (6.5, False) and answer() == (6.5, True)
    far.chmod(0o777)
    assert folders.folder() is None


@pytest.mark.parametrize("name", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_a_path_that_is_not_absolute_is_none(named, name, monkeypatch, tmp_path):
    """It would be another folder in each working directory, with what others have left there."""
    monkeypatch.setattr(config, "CACHE_DIR", "here" if name == "NUMBA_CACHE_DIR" else "")
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.chdir(tmp_path)
    if name == "HOME":
        monkeypatch.setenv("HOME", "here")
        assert folders.folder_path() is None and folders.folder() is None and not folders.writable()
    else:
        assert folders.folder_path().is_relative_to(tmp_path)  # the usual one
    assert answer() == (6.5, False) and not (tmp_path / "here").exists()


def test_without_a_home_nothing_is_read_or_written(named, monkeypatch, tmp_path):
    """As in a container without an entry for its user, where ~ stays as it is."""
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    assert answer() == answer() == (6.5, False) and folders.folder() is None and [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("made_as", ["link", "file"])
def test_a_lock_changes_no_file(tmp_path, made_as):
    """One that is a link would empty what it leads to."""
    victim, lock = tmp_path / "thesis", tmp_path / "kernel.lock"
    victim.write_text("years")
    if made_as == "link":
        lock.symlink_to(victim)
    else:
        lock.write_text("years")
    claim = kernel_cache._claim(lock)
    assert (claim is None) == (made_as == "link") and victim.read_text() == "years"
    assert claim is None or (lock.read_text() == "years" and claim.close() is None)


def test_where_nothing_can_be_written_each_process_compiles(named):
    """A file lies where the folder would be made, which stops the super-user, too."""
    named.write_text("")
    assert folders.folder() is None and kernel_cache.kernel_files() == []
    assert answer() == answer() == (6.5, False)


def test_a_folder_that_can_be_read_only_is_read(named, monkeypatch):
    """As in a container whose image was warmed; an empty one is none."""
    assert answer() == (6.5, False)
    monkeypatch.setattr(folders, "writable", lambda: False)
    assert answer() == (6.5, True)
    (file,) = kernel_cache.kernel_files()
    file.unlink()
    assert folders.folder() is None


@pytest.mark.slow
def test_info_says_why_nothing_is_kept(tmp_path):
    tmp_path.chmod(0o1777)
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OVERLAPS_QUIET": "1"}
    done = subprocess.run([sys.executable, "-m", "overlaps", "info"], env=env, capture_output=True, text=True)
    assert f"compiled kernels are not cached: others may write to {Path(tmp_path)}" in done.stdout and not done.stderr
