"""What travels to a worker with a job: policy, lists and learnt models that it does not have yet, then the message.

All three are snapshots: packed once for each version, then sent to each worker as the same bytes, uncopied.
guard notes which version each worker holds, within the bounds of `RecentSnapshots`.
"""

from collections.abc import Mapping

import msgspec

from gatepost.policy.layers import OUTBOUND
from gatepost.policy.rules import Policy
from gatepost.workers import protocol
from gatepost.workers.jobs import Attempt, SnapshotName
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import Frame
from gatepost.workers.status_page import LOAD_LISTS, LOAD_MODELS, LOAD_POLICY


class _PackedPolicy(msgspec.Struct, frozen=True):
    key: str
    version: str
    data: bytes


class JobFrames:
    """Builds the frames of jobs. `antivirus` says whether there is one to ask, `reputation` what zones list."""

    def __init__(
        self, policy: Policy, tenants: Mapping[str, Policy], *, antivirus: bool, reputation: tuple[str, ...]
    ) -> None:
        self._antivirus, self._reputation = antivirus, reputation
        self._policies: dict[str, _PackedPolicy] = {}
        for tenant, each in ((None, policy), *tenants.items()):
            self.publish(tenant, each)

    def publish(self, tenant: str | None, policy: Policy) -> None:
        """Judge every message of a tenant by this policy from now on; without a tenant, all that have none."""
        key = _policy_key(tenant)
        before = self._policies.get(key)
        version = str(int(before.version) + 1 if before else 1)
        self._policies[key] = _PackedPolicy(key, version, msgspec.msgpack.encode(policy))

    def snapshots_of(self, attempt: Attempt) -> tuple[SnapshotName, ...]:
        """The names of the snapshots that a job needs."""
        policy, others = self._policy_of(attempt), (attempt.job.lists, attempt.job.learnt)
        return ((policy.key, policy.version), *((each.key, each.version) for each in others if each.data))

    def build(self, attempt: Attempt, worker: WorkerProcess, raw: bytes) -> list[bytes]:
        """Return the frames of a job in that worker, and note which snapshots it holds from then on."""
        policy, lists, learnt = self._policy_of(attempt), attempt.job.lists, attempt.job.learnt
        frames: list[bytes] = []
        attempt.sent.clear()
        if worker.policies.get(policy.key) != policy.version:
            worker.policies.put(policy.key, policy.version, len(policy.data))
            attempt.sent[LOAD_POLICY] = (policy.key, policy.version)
            frames += (protocol.snapshot_header(attempt.number, policy.key, len(policy.data)), policy.data)
        if lists.data and worker.lists.get(lists.key) != lists.version:
            worker.lists.put(lists.key, lists.version, len(lists.data))
            attempt.sent[LOAD_LISTS] = (lists.key, lists.version)
            frames += (protocol.snapshot_header(attempt.number, lists.key, len(lists.data)), lists.data)
        if learnt.data and worker.learnt.get(learnt.key) != learnt.version:
            worker.learnt.put(learnt.key, learnt.version, len(learnt.data))
            attempt.sent[LOAD_MODELS] = (learnt.key, learnt.version)
            frames += (protocol.snapshot_header(attempt.number, learnt.key, len(learnt.data)), learnt.data)
        job = protocol.Job(
            attempt.job.envelope,
            attempt.job.now,
            lists.key if lists.data else "",
            attempt.skip,
            tuple(attempt.known.items()),
            self._antivirus,
            policy.key,
            attempt.job.purpose,
            attempt.job.index,
            self._reputation,
            learnt.key if learnt.data else "",
            attempt.job.parts,
        )
        frames += (
            protocol.pack_frame(Frame.JOB, attempt.number, job),
            protocol.raw_header(attempt.number, len(raw)),
            raw,
        )
        return frames

    def _policy_of(self, attempt: Attempt) -> _PackedPolicy:
        envelope = attempt.job.envelope
        scope = OUTBOUND if envelope.outbound else envelope.tenant
        return self._policies.get(_policy_key(scope)) or self._policies[_policy_key(None)]


def _policy_key(tenant: str | None) -> str:
    """Return the key of a tenant's policy among the snapshots; each worker gets it with the first job that needs it."""
    return f"policy:{tenant}" if tenant else "policy"
