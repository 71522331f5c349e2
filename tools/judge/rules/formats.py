"""Rules: making file systems on disks and images."""

from __future__ import annotations

from tools.judge.file_view import Looks
from tools.judge.meaning.value import HOLE, Value
from tools.judge.options import grammar, path_of, read
from tools.judge.rules.disks import DEVICE
from tools.judge.table import ActView, Test, operands, rule, word

_FORMATS = (
    "mkfs mke2fs mkswap mkdosfs mkntfs mkreiserfs mkexfatfs mkudffs mkudf mkisofs-dev newfs newfs_apfs newfs_msdos newfs_hfs"
    " format.com"
    " bcachefs jfs_mkfs mkzftree nilfs-mkfs f2fs-tools make-bcache mkinitfs mkfatfs hformat ufiformat mkflash ubiformat"
    " flash_erase"
    " flash_eraseall flashcp nandwrite mtd_debug"
)


_IMAGES = Test(lambda view: view.name in ("mkfs.erofs", "mkfs.cramfs") and len(view.operands()) > 1)
"""Test for programs that pack a folder into a new file."""


_DEVICES = frozenset({"-c", "-d", "-j", "-J", "-l", "-r", "--journal-device"})
"""Options that may name a further device (for a journal or a log), for programs with a known grammar."""


def _path(view: ActView) -> str:
    """Return the name of the grammar of the program that makes the file system: ``mkfs -t TYPE`` starts ``mkfs.TYPE``."""
    if view.name != "mkfs":
        return view.path
    kinds = view.values(frozenset({"-t", "--type"}))
    return path_of(f"mkfs.{kinds[-1].text if kinds else 'ext2'}")


def _formatted(view: ActView) -> list[Value]:
    """Return the formatted devices: operands and further devices, or every argument of a program with unknown options."""
    path, argv = _path(view), view.act.argv
    if not path:
        return list(argv[1:]) if view.operands() or any("=" in value.text for value in argv[1:]) else []
    reading = read(["", *view.words], path, frozenset({"--type"}))
    operands = [argv[at] for at in reading.operands]
    return [*operands, *(argv[one.value_at] for one in reading.options if one.name in _DEVICES and "/" in (one.value or ""))]


def _formats(view: ActView) -> bool:
    """Return whether the command formats something, and does not only show what it would do."""
    if view.name == "bcachefs" and not any(value.text == "format" for value in view.operands()):
        return False
    path = _path(view)
    if not path:
        return not word("-[nNV]+")(view)
    dry = grammar(path).dry
    given = read(["", *view.words], path).options
    twice = view.name == "mkfs" and sum(one.name in ("-V", "--verbose") for one in given) > 1
    return not twice and not any(one.name in dry and (one.name != "-V" or view.name != "mkfs") for one in given)


def _formats_device(view: ActView) -> bool:
    return any(DEVICE.fullmatch(value.text) for value in _formatted(view))


def _formats_other(view: ActView) -> bool:
    """Return whether an image, or something that is only known at run time, is formatted."""
    given = _formatted(view)
    unknown = any(HOLE in value.text for value in given)
    return bool(given) and not _formats_device(view) and (unknown or not _IMAGES(view))


def _not_ours(view: ActView, looks: Looks) -> bool:
    """Return whether the command may format something that is neither a file of the workspace nor a temporary file."""
    given = _formatted(view)[:1] if _path(view) else []
    return not given or not looks.are_inside(view.act, given)


RULES = (
    rule(
        "device.format",
        "block",
        _FORMATS,
        Test(_formats_device) & Test(_formats),
        "formats a disk: all its data is lost",
        yes=(
            "mkfs.ext4 /dev/sda1",
            "mkswap /dev/sdb2",
            "mkfs -t xfs /dev/vdb",
            "mkdosfs -F 32 /dev/sdc1",
            "mkfs.ext4 -L -n /dev/sda1",
            "mkfs -t xfs -n size=8k /dev/vdb",
            "mkfs -V -t ext4 /dev/sda1",
            "mkfs.xfs -l logdev=/dev/sdc1 disk.img",
            "newfs -L x /dev/da0",
        ),
        no=("mkfs.ext4 -n /dev/sda1", "mkfs --help", "mkfs.ext4 -V", "mkfs.ext4 -Fn /dev/sda1", "mkfs.ext4 -L /dev/sda1"),
        paths=operands,
    ),
    rule(
        "device.format",
        "ask",
        _FORMATS,
        Test(_formats_other) & Test(_formats),
        "formats an image, or a disk that is only known when it runs",
        yes=("mkfs.ext4 disk.img", "mkfs.ext4 -F -L /dev/sda disk.img", "mkfs.ext4 disk.img -L /dev/sda"),
        no=("mkfs.ext4 --help", "mkfs.erofs image.erofs root/", "mkfs.ext4-builder disk.img", "mkfs.xfs -N disk.img"),
        paths=operands,
        seen=_not_ours,
    ),
)
