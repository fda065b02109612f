import pytest

from demo import slurm_text

JOB = (
    "JobId=12 JobName=inference-7d-x2 UserId=k8s(402) GroupId=k8s(402) MCS_label=N/A Priority=1 Nice=0 "
    "JobState=RUNNING Reason=None Dependency=(null) NodeList=gpu-012-002 NumNodes=1 NumCPUs=1 "
    "AllocTRES=cpu=1,mem=128M,node=1,billing=1,gres/gpu=1,gres/gpu:h100=1 "
    "Comment=k8s:demo/inference-7d-x2:0a1b OverSubscribe=OK WorkDir=/tmp"
)
NODE = (
    "NodeName=gpu-012-002 Arch=x86_64 CoresPerSocket=2 CPUTot=2 OS=Linux 6.1.0 #1 SMP Debian RealMemory=22000 "
    "State=MIXED+DRAIN+DYNAMIC_NORM* Reason=k8s: cordon: node cordoned [slurm@2026-11-20T00:31:07] "
    'Comment={"node": "node-1", "pod": "gpu-012-002"}'
)


def test_a_job_line_is_read_field_by_field() -> None:
    job = slurm_text.parse_oneliner(JOB)
    assert (job["JobId"], job["JobState"], job["NodeList"]) == ("12", "RUNNING", "gpu-012-002")
    assert job["AllocTRES"] == "cpu=1,mem=128M,node=1,billing=1,gres/gpu=1,gres/gpu:h100=1"
    assert job["WorkDir"] == "/tmp"


def test_values_may_hold_spaces() -> None:
    node = slurm_text.parse_oneliner(NODE)
    assert node["OS"] == "Linux 6.1.0 #1 SMP Debian"
    assert node["Reason"] == "k8s: cordon: node cordoned [slurm@2026-11-20T00:31:07]"
    assert node["Comment"] == '{"node": "node-1", "pod": "gpu-012-002"}'


def test_state_marks_are_taken_off_the_flags() -> None:
    assert slurm_text.node_flags(slurm_text.parse_oneliner(NODE)) == {"MIXED", "DRAIN", "DYNAMIC_NORM"}


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:h100:2(IDX:0-1)", 2),
        ("gpu:2", 2),
        ("gpu:h100:0(IDX:N/A)", 0),
        ("shard:4(IDX:0,2),gpu:h100:1(IDX:0,3),gpu:a40:2(IDX:1)", 3),
        ("(null)", 0),
        ("", 0),
    ],
)
def test_gpus_are_counted_whatever_their_type(gres: str, count: int) -> None:
    assert slurm_text.gres_count(gres, "gpu") == count


@pytest.mark.parametrize(
    ("gres", "indices"),
    [
        ("gpu:h100:1(IDX:1)", [1]),
        ("gpu:h100:4(IDX:0-2,5)", [0, 1, 2, 5]),
        ("shard:4(IDX:0,2),gpu:h100:1(IDX:3),gpu:2(IDX:0-1)", [0, 1, 3]),
        ("gpu:h100:0(IDX:N/A)", []),
        ("(null)", []),
        ("", []),
    ],
)
def test_the_gpus_of_a_job_are_known_by_their_indices(gres: str, indices: list[int]) -> None:
    assert slurm_text.gres_indices(gres) == indices
