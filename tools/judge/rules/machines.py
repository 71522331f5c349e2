"""Rules: virtual machines."""

from __future__ import annotations

from tools.judge.rules._program import Program
from tools.judge.table import first_operand, operand, opt, rule, text, word

_WHY = "stops, deletes or rolls back a virtual machine"
virsh = Program("-c --connect -d -e -l --log -k -K -t")

RULES = (
    rule(
        "machine.delete",
        "ask",
        "vagrant",
        Program()("destroy") | Program()("snapshot delete|restore|pop"),
        _WHY,
        yes=("vagrant destroy -f", "vagrant snapshot delete base"),
        no=("vagrant up", "vagrant halt", "vagrant global-status --prune"),
    ),
    rule(
        "machine.delete",
        "ask",
        "virsh",
        virsh(
            "destroy|undefine|vol-delete|vol-wipe|pool-delete|pool-destroy|pool-undefine"
            "|snapshot-delete|snapshot-revert|net-destroy|net-undefine"
            "|shutdown|reset|reboot|managedsave-remove|checkpoint-delete|detach-disk|blockcommit"
            "|secret-undefine|nwfilter-undefine|iface-destroy"
            "|nodedev-destroy|node-suspend"
        ),
        "stops or deletes a virtual machine or its storage",
        at=lambda view: " ".join(value.text for value in view.operands(frozenset(("-c", "--connect")))[1:2]),
        yes=(
            "virsh undefine web --remove-all-storage",
            "virsh -c qemu:///system destroy web",
            "virsh vol-delete --pool default a.qcow2",
        ),
        no=("virsh list --all", "virsh start web", "virsh dominfo destroy"),
    ),
    rule(
        "machine.delete",
        "ask",
        "VBoxManage vboxmanage",
        (Program()("unregistervm|closemedium") & word(r"-?-delete(?:-all)?"))
        | Program()("snapshot") & word("delete|restore|restorecurrent")
        | Program()("controlvm") & word("poweroff|reset|acpipowerbutton")
        | Program()("hostonlyif|natnetwork|dhcpserver remove")
        | Program()("discardstate|startvm-reset")
        | (Program()("cloud") & operand("terminate|delete")),
        _WHY,
        yes=("VBoxManage unregistervm web --delete", "vboxmanage snapshot web delete base", "VBoxManage controlvm web poweroff"),
        no=("VBoxManage list vms", "VBoxManage snapshot web take base", "VBoxManage startvm web"),
    ),
    rule(
        "machine.delete",
        "ask",
        "qm pct",
        Program()("destroy|stop|shutdown|reset|rollback|delsnapshot|unlink|reboot|suspend|disk")
        & ~text(r"^disk (?:rescan|import|resize|move)"),
        "stops or deletes a virtual machine",
        at=Program().at("destroy|stop|shutdown|reset|rollback|delsnapshot", first_operand),
        yes=("qm destroy 100 --purge", "pct stop 101", "qm delsnapshot 100 base"),
        no=("qm list", "pct start 101", "qm config 100"),
    ),
    rule(
        "machine.delete",
        "ask",
        "multipass limactl colima orb orbctl lima wsl prlctl utmctl tart krunvm machinectl",
        Program("-M -H")("delete|remove|purge|factory-reset|reset|terminate|poweroff|clean")
        | word("--unregister|--terminate|--shutdown")
        | Program()("disk|snapshot|template delete"),
        _WHY,
        yes=("multipass delete --purge dev", "limactl delete -f dev", "wsl --unregister Ubuntu", "machinectl remove web"),
        no=("multipass list", "limactl start dev", "wsl --list", "machinectl status web"),
    ),
    rule(
        "machine.delete",
        "ask",
        "xl xe govc vmrun esxcli vim-cmd pvesm pvesh pvecm pveum",
        word(
            r"destroy|shutdown|vm\.destroy|vm\.power|snapshot\.(?:remove|revert)|datastore\.rm"
            r"|[\w-]+-(?:destroy|uninstall|forget|revert)|deleteVM|revertToSnapshot"
            r"|deleteSnapshot|vmsvc/destroy|vmsvc/power\.off|snapshot\.removeall|free|delnode"
            r"|host\.remove|object\.destroy|vm-shutdown"
        )
        | operand("delete", at=0)
        | operand("delete", at=1),
        _WHY,
        yes=(
            "xl destroy web",
            "govc vm.destroy web",
            "xe vm-uninstall uuid=1",
            "pvesm free local:100/a.qcow2",
            "pvesh delete /nodes/a/qemu/100",
        ),
        no=("xl list", "govc vm.info web", "pvesm status"),
    ),
    rule(
        "machine.delete",
        "ask",
        "qemu-img",
        (Program()("snapshot") & opt("-d -a")) | Program()("commit") | (Program()("resize") & opt("--shrink")),
        "changes or deletes a machine's disk",
        yes=("qemu-img snapshot -d base a.qcow2", "qemu-img resize --shrink a.qcow2 10G"),
        no=("qemu-img snapshot -l a.qcow2", "qemu-img info a.qcow2", "qemu-img create a.qcow2 10G"),
    ),
)
