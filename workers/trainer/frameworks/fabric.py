"""Which network a distributed run uses: what each library wants to hear of it, said before the library is loaded.

Owns the table of environment variables by library. Sources: PyTorch "torch.distributed" (GLOO_SOCKET_IFNAME), NCCL
"Environment Variables" (NCCL_SOCKET_IFNAME, NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_NET, NCCL_DEBUG), ps-lite "Environment
Variables" (DMLC_INTERFACE, DMLC_NODE_HOST), Horovod (HOROVOD_GLOO_IFACE), Open MPI "MCA parameters" (btl, oob). What
was used is recorded by the loop, in ``joined``.
"""

import os
from typing import Dict, Optional

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process

# Fabrics that NCCL's "IB" drives: RDMA over InfiniBand, and over Converged Ethernet.
RDMA = ("infiniband", "roce")
# NCCL then says which network and which ways it uses, once, as it starts; the log keeps what a process prints.
_TALKS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}
# Strategies whose gradients NCCL carries between the GPUs of several nodes.
BY_NCCL = ("ddp", "horovod", "multi-worker-mirrored")


def environment(job: Job, process: Process) -> Dict[str, str]:
    """Return what the environment of ``process`` needs so that its libraries use the job's fabric."""
    node = job.node_of(process)
    interface = node.interface
    if interface is None:
        # Within a node, too, NCCL says by which ways it goes: shared memory may stand in for NVLink.
        return dict(_TALKS) if process.device_kind == "cuda" and job.world_size > 1 else {}
    verbs = node.fabric in RDMA
    found = {
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
        # Without the sign NCCL takes it for the beginning of a name: ib1 would be ib10 too.
        "NCCL_SOCKET_IFNAME": "=" + interface,
        # Verbs are only used where InfiniBand was asked for: else NCCL would take them over the interface named above.
        "NCCL_IB_DISABLE": "0" if verbs else "1",
        # Neither a plugin's network nor TCP over an InfiniBand interface may stand in for what was asked for: where
        # NCCL cannot have the network of this name, it fails.
        "NCCL_NET": node.net or ("IB" if verbs else "Socket"),
        **_TALKS,
        "DMLC_INTERFACE": interface,
        "DMLC_NODE_HOST": node.address,
        "HOROVOD_GLOO_IFACE": interface,
        "OMPI_MCA_btl_tcp_if_include": interface,
        "OMPI_MCA_oob_tcp_if_include": interface,
        # "ob1" with TCP and shared memory: the choice among the transports of a host is not left to chance.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,vader,openib,tcp" if verbs else "self,vader,tcp",
    }
    if verbs and node.adapters:
        # By their whole names, and no others: a host may have slower ones, and those of the other link layer.
        found["NCCL_IB_HCA"] = "=" + ",".join(node.adapters)
    if node.net:  # a plugin's network (TBD_NCCL_NET) is none of those that NCCL has itself
        del found["NCCL_IB_DISABLE"]
    return found


def check(job: Job, process: Process) -> None:
    """See that what carries the gradients can be on the job's fabric.

    Raises:
        TrainerError: ``unsupported``, the fabric is RDMA only, and the ranks of this job exchange over IP.
    """
    node = job.node_of(process)
    if node.by_ip or (process.device_kind == "cuda" and job.plan.strategy in BY_NCCL):
        return
    told = "the fabric %s of node %s has no IP address of its own: only NCCL between GPUs can use it (strategies %s)"
    raise TrainerError("unsupported", told % (node.fabric, node.name, ", ".join(BY_NCCL)))


def apply(job: Job, process: Process) -> Dict[str, str]:
    """Put it into this process's environment; return it."""
    added = environment(job, process)
    os.environ.update(added)
    return added


def used(job: Job, process: Process) -> Dict[str, Optional[str]]:
    """Return what is recorded of the fabric: {fabric, interface, address}; fabric is null within one node."""
    node = job.node_of(process)
    return {"fabric": node.fabric, "interface": node.interface, "address": node.address}
