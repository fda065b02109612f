import json

from tests.unit.slurm.trim import RECORDED, trim

NUMBER = {"set": True, "infinite": False, "number": 4}


def test_each_recording_holds_what_the_client_reads():
    texts = {path: path.read_text() for path in RECORDED.rglob("*.json")}
    longer = [str(path.relative_to(RECORDED)) for path, text in texts.items() if trim(text, path.stem) != text]
    assert not longer, "run .venv/bin/python -m tests.unit.slurm.trim"


def trimmed(body: object, name: str = "x") -> object:
    return json.loads(trim(json.dumps({"request": "GET x", "status": 200, "content_type": "x", "body": body}), name))[
        "body"
    ]


def test_what_nobody_reads_goes_at_each_depth():
    job = {"job_id": 7, "nice": 3, "job_resources": {"cpus": 2, "nodes": {"allocation": [{"name": "n1", "index": 0}]}}}
    read = {"job_id": 7, "job_resources": {"nodes": {"allocation": [{"name": "n1"}]}}}
    assert trimmed({"jobs": [job], "last_backfill": NUMBER}) == {"jobs": [read]}


def test_a_field_with_another_name_in_json_stays():
    used = {"start": 1, "allocated": {"seconds": 9}, "TRES": {"type": "cpu", "name": "", "id": 1}}
    read = {"start": 1, "allocated": {"seconds": 9}, "TRES": {"type": "cpu", "name": ""}}
    bodies = [{"associations": [{"account": "chem", "accounting": [each]}]} for each in (used, read)]
    assert trimmed(bodies[0]) == bodies[1]


def test_nothing_of_a_list_goes_but_in_long_ones():
    nodes, shares = [{"name": f"n{n}"} for n in range(9)], [{"name": f"u{n}"} for n in range(9)]
    assert trimmed({"nodes": nodes, "shares": {"shares": shares}}) == {"nodes": nodes, "shares": {"shares": shares[:6]}}


def test_an_unexpected_value_and_a_whole_answer_stay():
    assert trimmed({"jobs": None, "nodes": "n1"}) == {"jobs": None, "nodes": "n1"}
    assert trimmed({"nodes": [{"name": "n1", "weight": 1}]}, "nodes") == {"nodes": [{"name": "n1", "weight": 1}]}
    assert trimmed("Authentication failure") == "Authentication failure"
