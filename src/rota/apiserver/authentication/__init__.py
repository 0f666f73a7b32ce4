"""Who asks: client certificates, bearer tokens of several origins, or nobody in particular.

`asking.RequestAuthenticator` fills the server's port; each origin of tokens is a file that fills the port in `tokens`.
A refusal says `Unauthorized` and no more; why is for the log.
"""
