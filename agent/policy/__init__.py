"""Policy: who may do what. Grants, standing answers, confirmation of the configuration, and toolcrib's protection of itself."""
