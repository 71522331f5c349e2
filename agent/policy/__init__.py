"""Policy: who may do what. Grants, permanent answers, confirmation of the configuration, and toolcrib's protection of itself."""
