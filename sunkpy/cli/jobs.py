"""`kubectl sunk jobs`: holds, releases, requeues and cancels jobs, by Slurm's own commands in slurmctld's pod."""

from __future__ import annotations

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import Sides, connected
from sunkpy.cli.options import NO_ANSWER, NO_SLURM, Form, Shown, present, show
from sunkpy.cli.pod_exec import ExecFailed, NoWay, find_pod, run_there, words_in
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core.overview.job_verbs import JobsDone, JobVerb, command_for, job_step_table, plan_jobs


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks `kubectl sunk jobs` to do, with which job numbers. `is_trial`: change nothing (--dry-run)."""

    verb: JobVerb
    numbers: tuple[str, ...]
    form: Form = "table"
    is_trial: bool = False


async def act(access: Access, order: JobOrder) -> Shown:
    """Hold, release, requeue or cancel the jobs. Return the command's output: the users of the jobs, and what happens
    to pods.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or the apiserver did not answer.
        ExecFailed: the command could not be run in slurmctld's pod, or did not end within a minute.
    """
    async with connected(access) as sides:
        reader = PoolReader.over(sides, namespace=access.namespace)
        facts = await reader.read_queue()
        if facts.jobs is None:
            done = JobsDone(verb=order.verb, is_done=False, jobs=(), unread=facts.unread)
            return _present(done, order.form, NO_SLURM)
        steps = plan_jobs(order.verb, order.numbers, facts.jobs, facts.pods)
        done = JobsDone(verb=order.verb, is_done=not order.is_trial, jobs=tuple(steps), unread=facts.unread)
        code = NO_ANSWER if any(step.why_not for step in steps) else 0
        numbers = [step.job for step in steps if not step.why_not]
        if not numbers or order.is_trial:
            return _present(done, order.form, code)
        try:
            pod = await find_pod(sides.kube, _same_cluster(access, sides), "slurmctld")
        except NoWay as why:
            raise ExecFailed(f"run {order.verb} in slurmctld's pod: {why}") from why
        said = await run_there(words_in(pod, access.kubeconfig, command_for(order.verb, numbers)))
    done = msgspec.structs.replace(done, said="\n".join(filter(None, (said.out, said.error))))
    return _present(done, order.form, NO_SLURM if said.exit_code else code)


def _same_cluster(access: Access, sides: Sides) -> Access:
    """Return the access to the cluster whose jobs were read: in another one, a job of this number is another job.

    Raises:
        NoWay: the namespace of that cluster is not known, or `access` names another one.
    """
    namespace = sides.slurm_namespace
    if not namespace:
        raise NoWay("--slurmrestd does not say which Slurm cluster that is; give its namespace: -n")
    if access.namespace not in ("", namespace):
        settings = f"the settings of --config are those of namespace {namespace}"
        raise NoWay(f"{settings}, not of {access.namespace}; leave out -n, or give the --config of that cluster")
    return msgspec.structs.replace(access, namespace=namespace)


def _present(done: JobsDone, form: Form, exit_code: int) -> Shown:
    before = "" if done.jobs else "Nothing was changed: the jobs cannot be read."

    def text() -> str:
        shown = show([job_step_table(done)], before=before, unread=done.unread)
        return f"{shown}\n\nSlurm says: {done.said}" if done.said else shown

    return present(done, form, text, exit_code)
