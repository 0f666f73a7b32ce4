"""What is bound on which node, and the guarded promise that no node is sold twice: `pod_shares`, `pod_index`,
`overcommit_guard`.
"""
