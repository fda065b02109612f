import time

import msgspec
import pytest

from sunkpy.core.model.objects import Meta
from sunkpy.core.nodeset.spec import NodeSet, NodeSetSpec
from sunkpy.core.overview.redaction import REDACTED, public, scrub, scrub_conf, scrubbed

KEY = "q8ZrVh3Jm0Wf7sXy2Lp5Tn9Bc4Kd6Ga1EuHiOjMkQrs="
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJzbHVybSJ9.hcFTb0vH2xk1"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (f"the key is {KEY}", f"the key is {REDACTED}"),
        (f"SLURM_JWT={TOKEN}", f"SLURM_JWT={REDACTED}"),
        (f"X-SLURM-USER-TOKEN: {TOKEN} x", f"X-SLURM-USER-TOKEN: {REDACTED} x"),
        (f"got {TOKEN}", f"got {REDACTED}"),
        ("Authorization: Bearer abcdefgh", f"Authorization: {REDACTED}"),
        ("sent bearer abcdefghij", f"sent bearer {REDACTED}"),
        (f"loaded {PEM} well", f"loaded {REDACTED} well"),
        ("cut: -----BEGIN RSA PRIVATE KEY-----\nMIIE", f"cut: {REDACTED}"),
        ("StoragePass=hunter2", f"StoragePass={REDACTED}"),
        ('{"password": "hunter2", "user": "ann"}', f'{{"password": {REDACTED}, "user": "ann"}}'),
        (r"{\"apiKey\":\"hunter2\"}", rf"{{\"apiKey\":{REDACTED}}}"),
        ("mysql://slurm:hunter2@db:3306/x", f"mysql://slurm:{REDACTED}@db:3306/x"),
        ("9f86d081884c7d659a2feaa0c55ad015", REDACTED),
        ("image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c", None),
        ("pod 3b241101-e2bb-4255-8caf-4136c566a962 on gpu-012-001", None),
        ("/var/lib/kubelet/plugins/kubernetes.io/csi/sunkpy", None),
        ("SchedulerParameters=bf_interval=1,bf_job_part_count_reserve=10", None),
        ("secrets: GET /api/v1/namespaces/slurm/secrets", None),
        ("tokens of the bucket are full; secrets stay secret", None),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_a_text_and_no_more(text, becomes):
    assert scrub(text) == (text if becomes is None else becomes)


def test_long_texts_cost_little():
    began = time.process_time()
    for text in ("a" * 2**18, "password" * 2**15, "eyJ" * 2**16, "a1A" * 2**16, "://" * 2**16):
        scrub(text)
    assert time.process_time() - began < 5


def test_texts_are_found_at_any_depth():
    assert scrubbed({"a": [{"b": f"jwt={KEY}"}, 1, None]}) == {"a": [{"b": f"jwt={REDACTED}"}, 1, None]}


def test_of_slurm_conf_no_comment_and_no_key_is_left():
    lines = ("ClusterName=c1", "# AuthInfo=x", "StoragePass=x y", "AuthAltParameters=jwt_key=/k", "NodeName=n1 CPUs=4")
    left = ("ClusterName=c1", f"StoragePass={REDACTED}", f"AuthAltParameters={REDACTED}", "NodeName=n1 CPUs=4")
    assert scrub_conf("\n".join(lines)) == "\n".join(left)


def test_of_objects_only_our_annotations_and_what_decisions_read_of_a_template():
    env = [{"name": "PASSWORD", "value": "hunter2"}]
    template = {"spec": {"containers": [{"name": "slurmd", "image": "x", "env": env, "args": ["--key=hunter2"]}]}}
    annotations = {"sunkpy.dev/drain": "bad fan", "kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    nodeset = NodeSet(metadata=Meta(name="gpu", annotations=annotations), spec=NodeSetSpec(template=template))
    (found,) = public([nodeset])
    assert "hunter2" not in msgspec.json.encode(found).decode()
    assert found.annotations == {"sunkpy.dev/drain": "bad fan"}
    assert found.spec.template["spec"]["containers"][0]["name"] == "slurmd"
    odd = msgspec.structs.replace(nodeset, spec=NodeSetSpec(template={"spec": {"containers": "hunter2"}}))
    assert "hunter2" not in msgspec.json.encode(public([odd])).decode()
