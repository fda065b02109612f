"""A Kubernetes Lease as the lock behind leader election (coordination.k8s.io/v1).

The clock of the process that holds the lease is never compared with the clock of this process: as in client-go, a lease
counts as expired when this process has seen no change of it for its duration.

Give `KubeLease` a client of its own: a client with a deadline cannot write before the lease is held, and calls that
hang must not use up the connections that the renewal of the lease needs.
"""

from __future__ import annotations

import math

from sunkpy.core.model.objects import KubeObject, Wire
from sunkpy.core.model.times import rfc3339_micro, utc_now
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.runtime.election import LeaseRecord, LockUnavailable


class _Spec(Wire, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Lease(KubeObject, frozen=True, kw_only=True):
    spec: _Spec = _Spec()


class KubeLease:
    """A `sunkpy.runtime.election.LeaseLock` (the lock of a leader election) that is stored as a Kubernetes Lease."""

    def __init__(self, kube: Kube, *, namespace: str, name: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name

    async def read(self) -> LeaseRecord | None:
        """Return the record of the lease as it is now; None if the Lease object does not exist.

        Raises:
            LockUnavailable: the apiserver did not answer, or refused.
        """
        try:
            lease = await self._kube.get(paths.lease(self._namespace, self._name), _Lease)
        except errors.NotFound:
            return None
        except errors.KubeError as error:
            raise LockUnavailable(str(error)) from error
        return LeaseRecord(
            holder=lease.spec.holder_identity or "",
            version=lease.metadata.resource_version,
            duration_s=lease.spec.lease_duration_seconds or 0,
            transitions=lease.spec.lease_transitions or 0,
            acquired=lease.spec.acquire_time or "",
        )

    async def write(self, *, holder: str, duration_s: float, previous: LeaseRecord | None) -> bool:
        """Take, renew or (with an empty `holder`) release the lease. Return False if it is not as in `previous` any
        more, because somebody else was faster. `previous` None: create the lease.

        Raises:
            LockUnavailable: the apiserver did not answer, or refused.
        """
        body = self._body(holder, duration_s, previous)
        try:
            if previous is None:
                await self._kube.create(paths.leases(self._namespace), body)
            else:
                await self._kube.request("PUT", paths.lease(self._namespace, self._name), body=body)
        except (errors.Conflict, errors.NotFound):
            return False
        except errors.KubeError as error:
            raise LockUnavailable(str(error)) from error
        return True

    def _body(self, holder: str, duration_s: float, previous: LeaseRecord | None) -> dict[str, object]:
        now = rfc3339_micro(utc_now())
        same = previous is not None and previous.holder == holder
        metadata = {"name": self._name, "namespace": self._namespace}
        if previous is not None:
            metadata["resourceVersion"] = previous.version
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(duration_s),
            "acquireTime": previous.acquired if same and previous and previous.acquired else now,
            "renewTime": now,
            "leaseTransitions": (previous.transitions if previous else 0) + (0 if same else 1),
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
