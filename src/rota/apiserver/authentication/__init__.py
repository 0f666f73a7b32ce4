"""Authentication: client certificates, bearer tokens of several origins, or anonymous.

`request_authenticator.RequestAuthenticator` implements the server's `Authenticator`; each origin of tokens is a module
that implements `tokens.TokenOrigin`. A refusal says only `Unauthorized`; the reason goes to the log.
"""
