"""ClientProtocol: calls for storage policies and erasure coding policies."""

from __future__ import annotations

from engine.namespace.erasure_coding import policy_name
from hadoop_rpc.client_messages import erasure_coding_message
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from image_format.erasure_policies import ErasurePolicy
from image_format.proto import fsimage_pb2
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.erasure_coding import CODECS
from namenode_stub.names.paths import client_path
from namenode_stub.refusals import IllegalArgumentError
from namenode_stub.rpc.handlers import OnceOnly, change
from namenode_stub.rpc.service_switch import ServiceSwitch


def storage_policy_changes(names: ActiveNamespace, *, hadoop3: bool) -> dict[str, Handler]:
    """Return the handlers by method; with `hadoop3`, also serve calls introduced with Hadoop 3."""
    policies = names.storage_policies
    unset = change(lambda each: policies.unset(client_path(each.src)))
    return {
        "setStoragePolicy": change(lambda each: policies.set(client_path(each.src), each.policyName)),
        **({"unsetStoragePolicy": unset} if hadoop3 else {}),
    }


_AddedPolicies = pb.AddErasureCodingPoliciesResponseProto


class ErasureCodingCalls:
    """Handlers of erasure coding policies, introduced with Hadoop 3."""

    def __init__(self, names: ActiveNamespace, once: OnceOnly, switch: ServiceSwitch) -> None:
        self._coding = names.erasure_coding
        self._once = once
        self._switch = switch

    def methods(self) -> dict[str, Handler]:
        coding, once = self._coding, self._once
        of_superusers = {
            "getECTopologyResultForPolicies": self.verify,
            "addErasureCodingPolicies": once.answer(self._add_all, self._known, _AddedPolicies.FromString),
            "removeErasureCodingPolicy": once.change(lambda each, caller: coding.remove(each.ecPolicyName, caller)),
            "enableErasureCodingPolicy": once.change(lambda each, caller: coding.enable(each.ecPolicyName, caller)),
            "disableErasureCodingPolicy": once.change(lambda each, caller: coding.disable(each.ecPolicyName, caller)),
        }
        return {
            "getErasureCodingPolicies": self.all,
            "getErasureCodingCodecs": self.codecs,
            "setErasureCodingPolicy": once.change(
                lambda each, caller: coding.set(client_path(each.src), each.ecPolicyName, caller)
            ),
            "unsetErasureCodingPolicy": once.change(lambda each, caller: coding.unset(client_path(each.src), caller)),
            **{name: self._switch.for_superusers(handler) for name, handler in of_superusers.items()},
        }

    def all(self, _: pb.EmptyProto, __: CallContext) -> pb.GetErasureCodingPoliciesResponseProto:
        return pb.GetErasureCodingPoliciesResponseProto(ecPolicies=map(erasure_coding_message, self._coding.all()))

    def codecs(self, _: pb.EmptyProto, __: CallContext) -> pb.GetErasureCodingCodecsResponseProto:
        codecs = [pb.CodecProto(codec=codec, coders=coders) for codec, coders in CODECS.items()]
        return pb.GetErasureCodingCodecsResponseProto(codec=codecs)

    def verify(
        self, request: pb.GetECTopologyResultForPoliciesRequestProto, _: CallContext
    ) -> pb.GetECTopologyResultForPoliciesResponseProto:
        """Report that there are not enough DataNodes for the policies."""
        found = {policy.name: policy for policy in self._coding.all()}
        missing = [name for name in request.policies if name not in found]
        if missing:
            problem = f"The given erasure coding policy {missing[0]} does not exist."
            return _verdict(problem, is_supported=False)
        wanted = [found[name] for name in request.policies]
        wanted = wanted or [policy for policy in found.values() if policy.state == fsimage_pb2.ENABLED]
        if not wanted:
            return _verdict("No erasure coding policy is given.", is_supported=True)
        needed = max(policy.data_units + policy.parity_units for policy in wanted)
        names = ", ".join(policy.name for policy in wanted)
        problem = f"{needed} DataNodes are required for the erasure coding policies: {names}. There are none."
        return _verdict(problem, is_supported=False)

    def _add_all(self, request: pb.AddErasureCodingPoliciesRequestProto, caller: ClientCall) -> bytes:
        answers = [self._add(policy, caller) for policy in request.ecPolicies]
        return _AddedPolicies(responses=answers).SerializeToString()

    def _known(self, request: pb.AddErasureCodingPoliciesRequestProto) -> bytes:
        held = {policy.name: policy for policy in self._coding.all()}
        found = [held[name] for name in map(_composed_name, request.ecPolicies) if name in held]
        return _AddedPolicies(responses=map(_added, found)).SerializeToString()

    def _add(self, policy: pb.ErasureCodingPolicyProto, caller: ClientCall) -> pb.AddErasureCodingPolicyResponseProto:
        schema = policy.schema
        options = tuple((option.key, option.value) for option in schema.options)
        units = schema.dataUnits, schema.parityUnits
        wanted = ErasurePolicy(policy.name, schema.codecName, *units, policy.cellSize, options)
        try:
            return _added(self._coding.add(wanted, caller))
        except IllegalArgumentError as error:
            return pb.AddErasureCodingPolicyResponseProto(policy=policy, succeed=False, errorMsg=error.message)


def _added(policy: ErasurePolicy) -> pb.AddErasureCodingPolicyResponseProto:
    return pb.AddErasureCodingPolicyResponseProto(policy=erasure_coding_message(policy), succeed=True)


def _composed_name(policy: pb.ErasureCodingPolicyProto) -> str:
    schema = policy.schema
    return policy_name(schema.codecName, schema.dataUnits, schema.parityUnits, policy.cellSize)


def _verdict(message: str, *, is_supported: bool) -> pb.GetECTopologyResultForPoliciesResponseProto:
    return pb.GetECTopologyResultForPoliciesResponseProto(
        response=pb.ECTopologyVerifierResultProto(resultMessage=message, isSupported=is_supported)
    )
