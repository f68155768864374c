"""ERASURE_CODING in the XML of Hadoop 3.x; built-in policies are completed by id."""

from __future__ import annotations

from collections.abc import Iterator

from image_format.policies import BUILT_IN
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import signed32
from image_tools.dump.xml_text import number, text


def erasure_coding_section(section: pb.ErasureCodingSection) -> Iterator[str]:
    """Yield the section, nothing if it has no policy."""
    if not section.policies:
        return
    yield "<ErasureCodingSection>\n"
    for policy in section.policies:
        yield _policy(_completed(policy))
    yield "</ErasureCodingSection>\n\n"


def _completed(policy: pb.ErasureCodingPolicyProto) -> pb.ErasureCodingPolicyProto:
    known = BUILT_IN.get(policy.id)
    if known is None:
        return policy
    whole = pb.ErasureCodingPolicyProto(id=policy.id, state=policy.state, name=known.name, cellSize=known.cell_size)
    whole.schema.codecName = known.codec
    whole.schema.dataUnits, whole.schema.parityUnits = known.data_units, known.parity_units
    return whole


def _policy(policy: pb.ErasureCodingPolicyProto) -> str:
    schema = policy.schema
    state = pb.ErasureCodingPolicyState.Name(policy.state)
    options = ""
    if schema.options:
        options = f"<extraOptions>\n{''.join(map(_option, schema.options))}</extraOptions>\n"
    return (
        f"<erasureCodingPolicy>\n{number('policyId', signed32(policy.id))}{text('policyName', policy.name)}"
        f"{number('cellSize', signed32(policy.cellSize))}{text('policyState', state)}<ecSchema>\n"
        f"{text('codecName', schema.codecName)}{number('dataUnits', signed32(schema.dataUnits))}"
        f"{number('parityUnits', signed32(schema.parityUnits))}{options}</ecSchema>\n</erasureCodingPolicy>\n\n"
    )


def _option(option: pb.ECSchemaOptionEntryProto) -> str:
    return f"<option>\n{text('key', option.key)}{text('value', option.value)}</option>\n"
