"""Rules: partitioning and wiping disks; volumes, RAID, pools, snapshots; mounting."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE
from tools.judge.table import ANY, Test, count, first_operand, operand, operands, opt, rule, sub, text, value, word

DEVICE = Regex(
    r"(?:\w+=)?/dev/(?!null|zero|full|std|fd/|tty|shm/|pts/|u?random).+|(?:\w+=)?/dev/?|PhysicalDrive.*|\\\\.\\.*"
    r"|disk\d+(?:s\d+)?|/dev"
)
"""Words that name a disk, a partition, or another storage device."""
_DISK = Test(lambda view: any(map(DEVICE.fullmatch, view.said)))
_ZFS_DRY = word(r"-v*n[nv]*")
"""Test for ``-n``, alone or together with ``-v``: zfs then only prints what it would do."""


RULES = (
    rule(
        "device.partition",
        "block",
        "fdisk cfdisk sfdisk fixparts gpart gpt partx kpartx addpart delpart resizepart growpart",
        _DISK
        & ~(
            opt("-l --list -s --getsize -d --dump -J --json --show -V --verify -n --no-act -N --dry-run -p")
            & ~opt("-a --add -D --delete -u --update --wipe --part-type --activate -A")
        )
        & ~sub("show|list|status|backup"),
        "writes a disk's partition table",
        yes=("fdisk /dev/sda", "sfdisk /dev/sda", "sfdisk --delete /dev/sda", "growpart /dev/sda 1"),
        no=("fdisk -l /dev/sda", "sfdisk -d /dev/sda", "fdisk -l"),
        paths=operands,
    ),
    rule(
        "device.partition",
        "block",
        "sgdisk gdisk cgdisk",
        _DISK
        & (
            Test(lambda view: view.name != "sgdisk")
            | opt("-Z -z -o -d -n -t -c -g -m -l -s -R -G -u -U -A -C -e -j -N -r -T -h -a")
            | word(r"--(?!print|info|verify|backup|version|list-types|display-alignment|first|last|end-of|pretend).*")
        )
        & ~opt("-P --pretend"),
        "writes a disk's partition table",
        yes=("sgdisk -Z /dev/sdb", "sgdisk --zap-all /dev/sda", "sgdisk -d 1 /dev/sda", "gdisk /dev/sda"),
        no=("sgdisk -p /dev/sda", "sgdisk --backup=t /dev/sda", "sgdisk -P -o /dev/sda"),
        paths=operands,
    ),
    rule(
        "device.partition",
        "block",
        "parted",
        _DISK & text(r"\b(?:mklabel|mktable|mkpart\w*|rm|resizepart|resize|move|mkfs|rescue|set|disk_set|toggle|name|cp)\b"),
        "writes a disk's partition table",
        yes="parted -s /dev/sda mklabel gpt",
        no=("parted -l", "parted /dev/sda print"),
        paths=operands,
    ),
    rule(
        "device.node",
        "ask",
        "mknod",
        operand("b", 1),
        "creates another name for a disk, which makes it writable",
        yes="mknod x b 8 0",
        no=("mknod pipe p", "mknod dev/null c 1 3"),
        paths=operands,
    ),
    rule(
        "device.partition",
        "ask",
        "gparted partitionmanager",
        ANY,
        "writes a disk's partition table",
        yes="gparted /dev/sda",
        no="gparted --help",
    ),
    rule(
        "device.wipe",
        "block",
        "wipefs",
        _DISK & opt("-a --all -o --offset -f --force") & ~opt("-n --no-act"),
        "wipes a disk's signatures",
        yes=("wipefs --all --force /dev/vdb", "wipefs -a /dev/sda"),
        no=("wipefs /dev/sda", "wipefs -n -a /dev/sda"),
        paths=operands,
    ),
    rule(
        "device.wipe",
        "block",
        "blkdiscard badblocks sg_format sg_sanitize scrub shred wipe nwipe dban bcwipe",
        _DISK & (Test(lambda view: view.name != "badblocks") | opt("-w -n")),
        "wipes a disk",
        yes=("blkdiscard /dev/nvme0n1", "shred -n 1 /dev/sda", "badblocks -w /dev/sdb"),
        no=("badblocks -sv /dev/sda",),
        paths=operands,
    ),
    rule(
        "device.wipe",
        "block",
        "hdparm",
        text(
            r"--(?:security-erase|trim-sector|security-set-pass|dco-restore|sanitize|make-bad-sector|write-sector|fwdownload"
            r"|please-destroy)|--yes-i-know"
        ),
        "erases or locks a disk",
        yes="hdparm --user-master u --security-erase p /dev/sda",
        no="hdparm -I /dev/sda",
    ),
    rule(
        "device.wipe",
        "block",
        "nvme",
        sub(
            "format|sanitize|delete-ns|create-ns|fw-activate|fw-commit|fw-download|write|write-zeroes|write-uncor|dsm"
            "|security-send|reset|detach-ns"
        ),
        "erases or changes a disk",
        yes="nvme format /dev/nvme0n1",
        no=("nvme list", "nvme smart-log /dev/nvme0"),
    ),
    rule(
        "device.wipe",
        "block",
        "diskutil",
        sub(
            "eraseDisk|eraseVolume|erasedisk|erasevolume|partitionDisk|partitiondisk|reformat|secureErase|secureerase"
            "|zeroDisk|zerodisk"
            "|randomDisk|randomdisk|eraseCD|eraseOptical|resizeVolume|mergePartitions|splitPartition"
        )
        | (sub("apfs|ap|cs|corestorage|ar|appleRAID") & operand(r"(?i:delete\w*|erase\w*|destroy\w*)", 1)),
        "erases or partitions a disk",
        yes=("diskutil eraseDisk JHFS+ X disk2", "diskutil apfs deleteContainer disk2"),
        no=("diskutil list", "diskutil info disk0"),
        at=lambda view: "",
    ),
    rule(
        "device.write",
        "block",
        "dd dcfldd dc3dd",
        word(r"h?of=/dev/(?!null|zero|full|std|fd/|tty|shm/|pts/|tcp/|udp/|u?random).+") & ~word(rf".*=/dev/[^/]*{HOLE}.*"),
        "writes a disk directly",
        yes="dd if=image.iso of=/dev/sdb",
        no=("dd if=/dev/zero of=disk.img count=4", "dd if=/dev/sda of=/dev/null"),
    ),
    rule(
        "device.write",
        "block",
        "cp cat tee ddrescue pv bmaptool asr qemu-img sg_dd partclone.ext4 partclone ntfsclone e2image usbimager balena"
        " etcher-cli restore"
        " partimage xfs_copy fsarchiver",
        operand(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|r?disk\d|mapper/|dm-|md\d|loop\d).*", -1)
        & (
            Test(lambda view: view.name in ("cp", "tee", "ddrescue", "bmaptool", "pv"))
            | opt("-r -o -O --restore --target --overwrite")
        )
        & (Test(lambda view: view.name in ("tee",)) | count(2) | opt("-o --output")),
        "writes a disk directly",
        yes=("cp image.iso /dev/sdb", "tee /dev/sda", "bmaptool copy a.img /dev/mmcblk0"),
        no=("cat /dev/sda", "ddrescue /dev/sda a.img", "cp a b"),
    ),
    rule(
        "device.crypt",
        "ask",
        "cryptsetup cryptsetup-reencrypt veracrypt",
        sub(
            "luksFormat|luksErase|erase|luksRemoveKey|luksKillSlot|reencrypt|format|luksHeaderRestore|luksChangeKey|luksAddKey"
            "|luksSuspend|wipe|tcryptWipe"
        )
        | opt("--create"),
        "formats an encrypted volume or destroys its keys",
        yes=("cryptsetup luksFormat /dev/sdb1", "cryptsetup erase /dev/sdb1"),
        no=("cryptsetup luksDump /dev/sdb1", "cryptsetup status x", "cryptsetup open /dev/sdb1 x"),
    ),
    rule(
        "device.volumes",
        "ask",
        "lvremove vgremove pvremove vgreduce lvreduce lvconvert lvresize pvmove vgsplit vgexport vgmerge pvcreate"
        " vgcfgrestore pvchange",
        ~opt("-t --test")
        & ~(Test(lambda view: view.name == "vgcfgrestore") & opt("-l --list"))
        & ~(Test(lambda view: view.name == "lvresize") & value("-L --size -l --extents", r"\+.*"))
        & ~(Test(lambda view: view.name == "pvchange") & opt("--addtag --deltag") & ~opt("-x -u -a --uuid --allocatable --all")),
        "destroys a volume or a part of it",
        yes=("lvremove -y vg1/data", "vgreduce --removemissing --force vg0", "pvcreate /dev/sdb"),
        no=("lvs vg1", "lvremove -t vg1/x", "lvremove --help", "vgcfgrestore -l vg1", "lvresize -L +10G vg1/a"),
        at=first_operand,
    ),
    rule(
        "device.volumes",
        "ask",
        "lvm dmsetup",
        sub("lvremove|vgremove|pvremove|vgreduce|lvreduce|remove|remove_all|wipe_table|suspend|clear|reload|load"),
        "destroys a volume or a part of it",
        yes=("lvm lvremove vg1/a", "dmsetup remove_all"),
        no=("dmsetup ls", "lvm lvs"),
    ),
    rule(
        "device.volumes",
        "ask",
        "zfs",
        (sub("destroy|rollback|unmount|umount|unload-key|change-key|rename|inherit|promote|receive|recv|upgrade") & ~_ZFS_DRY)
        & ~(sub("unmount|umount|rename|inherit|promote|upgrade") & ~opt("-a")),
        "destroys datasets or snapshots, or rolls them back",
        yes=("zfs destroy tank/home@daily", "zfs destroy -v tank@a", "zfs rollback -r tank@a", "zfs receive -F tank/x"),
        no=("zfs list", "zfs destroy -nv tank@a", "zfs snapshot tank@a"),
        at=lambda view: view.operands()[-1].text if count(2)(view) else "",
    ),
    rule(
        "device.volumes",
        "ask",
        "zpool",
        sub(
            "destroy|remove|detach|labelclear|offline|export|split|create|attach|replace|trim|clear|initialize|reguid|upgrade"
            "|checkpoint"
        )
        & ~opt("-n"),
        "destroys or changes a pool",
        yes=("zpool destroy tank", "zpool labelclear /dev/sdb"),
        no=("zpool status", "zpool create -n tank sdb"),
        at=lambda view: view.operands()[1].text if count(2)(view) else "",
    ),
    rule(
        "device.volumes",
        "ask",
        "btrfs",
        # btrfs accepts any unique abbreviation of each word
        operand(r"su\w*|d\w*|q\w*", 0) & operand(r"de\w*|d|rem\w*|rm", 1)
        | operand(r"f\w*", 0) & operand(r"r\w*", 1)
        | operand(r"resc\w*", 0) & operand(r"zero-log|chunk-recover|super-recover|clear-\S+", 1)
        | operand("replace", 0) & operand("start", 1)
        | operand(r"b\w*", 0) & text(r"convert=(?:single|raid0)\b")
        | opt("--repair --init-csum-tree --init-extent-tree"),
        "deletes subvolumes or removes a disk",
        yes=(
            "btrfs subvolume delete /mnt/s",
            "btrfs device remove /dev/sdb /mnt",
            "btrfs su d /mnt/s",
            "btrfs check --repair /dev/sda",
        ),
        no=("btrfs subvolume list /", "btrfs filesystem df /", "btrfs fi defragment a", "btrfs balance start /mnt"),
    ),
    rule(
        "device.volumes",
        "ask",
        "mdadm",
        word(
            "--zero-superblock|--stop|-S|--remove|-r|--fail|-f|--create|-C|--grow|-G|--set-faulty|--kill-subarray|--build|-B"
            "|--stop.*|--zero.*"
        ),
        "stops, changes or destroys an array",
        yes=("mdadm --zero-superblock /dev/sdb", "mdadm --stop /dev/md0", "mdadm /dev/md0 -f /dev/sdb1"),
        no=("mdadm --detail /dev/md0", "mdadm --examine /dev/sda"),
    ),
    rule(
        "device.volumes",
        "ask",
        "MegaCli MegaCli64 storcli storcli64 perccli perccli64 ssacli hpssacli arcconf sas2ircu tw_cli hpacucli",
        text(
            r"\b(?:del(?:ete)?|-cfgl?dd?el|-cfgclr|-cfglddel|init|clear|erase|cfgclr|remove|start erase|set (?:offline|good"
            r"|jbod))\b"
        ),
        "destroys an array",
        yes="storcli /c0/v0 del force",
        no="storcli /c0 show",
    ),
    rule(
        "device.volumes",
        "ask",
        "snapper timeshift tmutil lvmsnapshot stratis multipath vdo sanoid",
        sub(
            "delete|rm|remove|undochange|rollback|deletelocalsnapshots|disable|stratis|thinlocalsnapshots|removedestination"
            "|restore"
        )
        | word("--delete|--delete-all|--restore|-F|--prune-snapshots")
        | (sub("pool|filesystem|fs") & operand("destroy|delete", 1)),
        "deletes or rolls back snapshots",
        yes=("snapper delete 1-10", "tmutil deletelocalsnapshots /", "timeshift --delete-all", "stratis pool destroy p"),
        no=("snapper list", "tmutil listbackups", "timeshift --list"),
    ),
    rule(
        "device.filesystem",
        "ask",
        "resize2fs resize_reiserfs ntfsresize xfs_repair e2fsck fsck fsck_hfs fsck_apfs tune2fs xfs_admin e2label debugfs"
        " reiserfsck ntfsfix"
        " fatresize xfs_db dumpe2fs btrfstune fsadm fstrim jfs_fsck reiserfstune",
        _DISK
        & Test(lambda view: view.name not in ("dumpe2fs", "fstrim", "e2label"))
        & ~(opt("-n -N -l --list --dry-run -r -R") & ~opt("-w -y"))
        & ~(Test(lambda view: view.name == "debugfs") & ~opt("-w")),
        "changes a file system in place",
        yes=("e2fsck -y /dev/sda1", "tune2fs -m 0 /dev/sda1", "debugfs -w /dev/sda1"),
        no=("debugfs /dev/sda1", "fsck -n /dev/sda1", "tune2fs -l /dev/sda1", "dumpe2fs /dev/sda1"),
        paths=operands,
    ),
    rule(
        "device.mount",
        "ask",
        "mount",
        (opt("-o --options --bind --rbind --move -B -R -M -t --types") | count(2))
        & ~opt("-l --show-labels -f --fake -h -V")
        & ~(operand(r"/dev/(?:cdrom|dvd|sr\d).*") & ~operand(r"/(?:etc|usr|bin|boot|lib|var|home)?(?:/.*)?", -1)),
        "mounts or remounts a file system",
        yes=("mount -o remount,rw /", "mount /dev/sdb1 /mnt", "mount --bind a /etc"),
        no=("mount", "mount -l", "mount /dev/cdrom /mnt"),
    ),
    rule(
        "device.mount",
        "ask",
        "umount fusermount fusermount3 swapoff udisksctl eject losetup",
        (
            Test(lambda view: view.name not in ("losetup", "udisksctl"))
            & (opt("-a --all -l --lazy -f --force -r --recursive -R") | operand(r"/(?!mnt/|media/|tmp/|run/media).*"))
            & ~Test(lambda view: view.name == "eject" and (opt("-T -t")(view) or operand(r"/dev/(?:cdrom|dvd|sr\d).*")(view)))
        )
        | (Test(lambda view: view.name == "losetup") & opt("-D --detach-all"))
        | sub("power-off|unmount"),
        "detaches a file system or the swap",
        yes=("umount -l /home", "swapoff -a", "umount /var"),
        no=("umount /mnt/usb", "losetup -l", "eject /dev/cdrom"),
    ),
)
