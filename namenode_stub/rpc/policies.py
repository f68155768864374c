"""ClientProtocol: calls for storage policies and erasure coding policies."""

from __future__ import annotations

from collections.abc import Callable

from engine.namespace.erasure_coding import ErasureCodingPolicy, policy_name
from hadoop_rpc.client_messages import erasure_coding_message, storage_policy_message
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from image_format.proto import fsimage_pb2
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.erasure_coding import CODECS
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.refusals import IllegalArgumentError
from namenode_stub.rpc.handlers import EMPTY, caller_of, client_path
from namenode_stub.rpc.service_switch import ServiceSwitch


class StoragePolicyCalls:
    """Handlers of storage policies.

    Args:
        hadoop3: whether to serve calls introduced with Hadoop 3.
    """

    def __init__(self, names: ActiveNamespace, *, hadoop3: bool) -> None:
        self._policies = names.storage_policies
        self._hadoop3 = hadoop3

    def methods(self) -> dict[str, Handler]:
        found: dict[str, Handler] = {"getStoragePolicies": self.all, "setStoragePolicy": self.set}
        if self._hadoop3:
            found["getStoragePolicy"] = self.of
            found["unsetStoragePolicy"] = self.unset
        return found

    def all(self, _: pb.EmptyProto, __: CallContext) -> pb.GetStoragePoliciesResponseProto:
        return pb.GetStoragePoliciesResponseProto(policies=map(storage_policy_message, self._policies.all()))

    def of(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetStoragePolicyResponseProto:
        found = self._policies.of(client_path(request.src))
        return pb.GetStoragePolicyResponseProto(storagePolicy=storage_policy_message(found))

    def set(self, request: pb.SetStoragePolicyRequestProto, _: CallContext) -> pb.EmptyProto:
        self._policies.set(client_path(request.src), request.policyName)
        return EMPTY

    def unset(self, request: pb.PathRequestProto, _: CallContext) -> pb.EmptyProto:
        self._policies.unset(client_path(request.src))
        return EMPTY


class ErasureCodingCalls:
    """Handlers of erasure coding policies, introduced with Hadoop 3."""

    def __init__(self, names: ActiveNamespace, cache: RetryCache, switch: ServiceSwitch) -> None:
        self._coding = names.erasure_coding
        self._cache = cache
        self._switch = switch

    def methods(self) -> dict[str, Handler]:
        return {
            "getErasureCodingPolicies": self.all,
            "getErasureCodingPolicy": self.of,
            "getErasureCodingCodecs": self.codecs,
            "getECTopologyResultForPolicies": self.verify,
            "setErasureCodingPolicy": self.set,
            "unsetErasureCodingPolicy": self.unset,
            "addErasureCodingPolicies": self.add,
            "removeErasureCodingPolicy": self._by_name(self._coding.remove),
            "enableErasureCodingPolicy": self._by_name(self._coding.enable),
            "disableErasureCodingPolicy": self._by_name(self._coding.disable),
        }

    # ---- queries -----------------------------------------------------------------------------------------------------

    def all(self, _: pb.EmptyProto, __: CallContext) -> pb.GetErasureCodingPoliciesResponseProto:
        return pb.GetErasureCodingPoliciesResponseProto(ecPolicies=map(erasure_coding_message, self._coding.all()))

    def of(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetErasureCodingPolicyResponseProto:
        found = self._coding.of(client_path(request.src))
        if found is None:
            return pb.GetErasureCodingPolicyResponseProto()
        return pb.GetErasureCodingPolicyResponseProto(ecPolicy=erasure_coding_message(found))

    def codecs(self, _: pb.EmptyProto, __: CallContext) -> pb.GetErasureCodingCodecsResponseProto:
        codecs = [pb.CodecProto(codec=codec, coders=coders) for codec, coders in CODECS.items()]
        return pb.GetErasureCodingCodecsResponseProto(codec=codecs)

    def verify(
        self, request: pb.GetECTopologyResultForPoliciesRequestProto, context: CallContext
    ) -> pb.GetECTopologyResultForPoliciesResponseProto:
        """Check whether there are enough DataNodes for policies: there are none."""
        self._switch.check_superuser(context)
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

    # ---- directories ---------------------------------------------------------------------------------------------

    def set(self, request: pb.SetErasureCodingPolicyRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)

        def perform() -> None:
            self._coding.set(client_path(request.src), request.ecPolicyName, caller)

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def unset(self, request: pb.PathRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)
        self._cache.once(caller, lambda: self._coding.unset(client_path(request.src), caller), lambda: None)
        return EMPTY

    # ---- policies ------------------------------------------------------------------------------------------------

    def add(
        self, request: pb.AddErasureCodingPoliciesRequestProto, context: CallContext
    ) -> pb.AddErasureCodingPoliciesResponseProto:
        self._switch.check_superuser(context)
        caller = caller_of(context)

        def perform() -> bytes:
            answers = [self._add(policy, caller) for policy in request.ecPolicies]
            return pb.AddErasureCodingPoliciesResponseProto(responses=answers).SerializeToString()

        def known() -> bytes:
            held = {policy.name: policy for policy in self._coding.all()}
            found = [held[name] for name in map(_composed_name, request.ecPolicies) if name in held]
            answers = [_added(policy) for policy in found]
            return pb.AddErasureCodingPoliciesResponseProto(responses=answers).SerializeToString()

        answer = self._cache.once(caller, perform, known)
        return pb.AddErasureCodingPoliciesResponseProto.FromString(answer)

    def _add(self, policy: pb.ErasureCodingPolicyProto, caller: ClientCall) -> pb.AddErasureCodingPolicyResponseProto:
        wanted = ErasureCodingPolicy(
            id=policy.id,
            name=policy.name,
            codec=policy.schema.codecName,
            data_units=policy.schema.dataUnits,
            parity_units=policy.schema.parityUnits,
            options=tuple((option.key, option.value) for option in policy.schema.options),
            cell_size=policy.cellSize,
            state=fsimage_pb2.DISABLED,
        )
        try:
            return _added(self._coding.add(wanted, caller))
        except IllegalArgumentError as error:
            return pb.AddErasureCodingPolicyResponseProto(policy=policy, succeed=False, errorMsg=error.message)

    def _by_name(
        self, change: Callable[[str, ClientCall], None]
    ) -> Callable[[pb.PolicyNameRequestProto, CallContext], pb.EmptyProto]:
        def handler(request: pb.PolicyNameRequestProto, context: CallContext) -> pb.EmptyProto:
            self._switch.check_superuser(context)
            caller = caller_of(context)
            self._cache.once(caller, lambda: change(request.ecPolicyName, caller), lambda: None)
            return EMPTY

        return handler


def _added(policy: ErasureCodingPolicy) -> pb.AddErasureCodingPolicyResponseProto:
    return pb.AddErasureCodingPolicyResponseProto(policy=erasure_coding_message(policy), succeed=True)


def _composed_name(policy: pb.ErasureCodingPolicyProto) -> str:
    schema = policy.schema
    return policy_name(schema.codecName, schema.dataUnits, schema.parityUnits, policy.cellSize)


def _verdict(message: str, *, is_supported: bool) -> pb.GetECTopologyResultForPoliciesResponseProto:
    return pb.GetECTopologyResultForPoliciesResponseProto(
        response=pb.ECTopologyVerifierResultProto(resultMessage=message, isSupported=is_supported)
    )
