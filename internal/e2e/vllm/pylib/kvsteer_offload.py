"""KV offloading for an engine without a GPU: vLLM's own scheduler side of it
(what is offloaded, evicted and announced) with a worker that copies from memory
to memory, because vLLM's own copies with CUDA streams only.

Use: --kv-transfer-config with kv_connector OffloadingConnector and, in its extra
config, spec_name HostOffloadingSpec and spec_module_path kvsteer_offload.
"""
import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec


class HostOffloadingWorker(OffloadingWorker):
    """Copies at once, one block to a chunk."""

    def __init__(self, caches, chunks):
        self.pairs = []
        for t in caches.tensors:
            near = t.tensor.view(torch.int8).view((-1, t.page_size_bytes))
            self.pairs.append((near, torch.zeros((chunks, t.page_size_bytes), dtype=torch.int8)))
        self.done = []

    def submit_store(self, job_id, src_spec, dst_spec):
        for near, far in self.pairs:
            far[dst_spec.block_ids] = near[src_spec.block_ids]
        self.done.append(TransferResult(job_id=job_id, success=True))
        return True

    def submit_load(self, job_id, src_spec, dst_spec):
        for near, far in self.pairs:
            near[dst_spec.block_ids] = far[src_spec.block_ids]
        self.done.append(TransferResult(job_id=job_id, success=True))
        return True

    def get_finished(self):
        done, self.done = self.done, []
        return done

    def wait(self, job_ids):
        pass  # everything was done when it was submitted


class HostOffloadingSpec(CPUOffloadingSpec):
    def get_worker(self, kv_caches):
        if self.blocks_per_chunk != 1:
            raise ValueError("one block to a chunk only")
        if self._worker is None:
            self._worker = HostOffloadingWorker(kv_caches, self.num_chunks)
        return self._worker
