"""Operations on the live namespace, by kind; `namenode_stub.active_namespace` puts them together."""
