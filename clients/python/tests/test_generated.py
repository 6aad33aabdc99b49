"""The stubs match proto/ and do not collide with other copies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
STUBS = PACKAGE / "src/sessiond_adk/_proto"


def test_stubs_are_current(tmp_path: Path) -> None:
    """Fails when proto/ has changed and `generate` was not run."""
    subprocess.run([sys.executable, PACKAGE / "generate", "--out", tmp_path], check=True)
    generated = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in STUBS.glob("*_pb2*")}
    assert len(generated) > 10
    assert sorted(generated) == sorted(committed)
    stale = [name for name, text in generated.items() if committed[name] != text]
    assert stale == [], "run clients/python/generate"


def test_another_copy_of_the_contract_in_the_process_does_not_collide() -> None:
    """A contract with the same names and other content is loaded before and used afterwards."""
    code = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
other = descriptor_pb2.FileDescriptorProto(name="sessiond/v1/types.proto", package="sessiond.v1", syntax="proto3")
message = other.message_type.add(name="SessionKey")
message.field.add(name="another_field", number=1, type=9, label=1)
descriptor_pool.Default().AddSerializedFile(other.SerializeToString())
from sessiond_adk import SessiondSessionService
from sessiond_adk.client import session_key
assert session_key("a", "b", "c").session_id == "c"
found = descriptor_pool.Default().FindMessageTypeByName("sessiond.v1.SessionKey")
assert message_factory.GetMessageClass(found)(another_field="x").another_field == "x"
assert "sessiond.v1.WatchService" not in str(descriptor_pool.Default())
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stubs_add_no_top_level_package() -> None:
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sessiond_adk, sys; assert not [m for m in sys.modules if m.startswith('sessiond.')]",
        ],
        check=True,
    )
