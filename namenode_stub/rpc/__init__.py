"""The stub's RPC server: ClientProtocol, NamenodeProtocol and HAServiceProtocol over the live namespace."""
