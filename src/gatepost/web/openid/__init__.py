"""Signing in through an OpenID provider (OpenID Connect Core 1.0, authorization code flow with PKCE)."""
