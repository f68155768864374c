"""Operations on the live namespace by kind, combined by `namenode_stub.active_namespace`."""
