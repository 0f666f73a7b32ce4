"""What clouds send, as they send it."""

import base64
import json
from typing import Any


def interruption(instance: str = "i-0abc", **more: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-03-01T12:00:00Z",
        "region": "us-east-2",
        "resources": [f"arn:aws:ec2:us-east-2a:instance/{instance}"],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
        **more,
    }


def rebalance(instance: str = "i-0abc") -> dict[str, Any]:
    return interruption(instance, **{"detail-type": "EC2 Instance Rebalance Recommendation", "id": "r-1"})


def state(name: str, instance: str = "i-0abc") -> dict[str, Any]:
    return interruption(
        instance,
        **{
            "detail-type": "EC2 Instance State-change Notification",
            "id": f"s-{name}",
            "detail": {"instance-id": instance, "state": name},
        },
    )


def preempted(name: str = "gke-1", *, method: str = "compute.instances.preempted") -> dict[str, Any]:
    return {
        "protoPayload": {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "methodName": method,
            "resourceName": f"projects/p/zones/europe-west1-b/instances/{name}",
        },
        "insertId": "abc",
        "resource": {"type": "gce_instance", "labels": {"instance_id": "123", "zone": "europe-west1-b"}},
        "timestamp": "2026-03-01T12:00:00.5Z",
    }


def pushed(entry: Any) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(entry).encode()).decode()
    return {"message": {"data": data, "messageId": "1"}, "subscription": "projects/p/subscriptions/s"}


def scheduled(kind: str = "Preempt", *names: str, **more: Any) -> dict[str, Any]:
    event = {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventStatus": "Scheduled",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(names) or ["pool_3"],
        "NotBefore": "Sun, 01 Mar 2026 12:00:30 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
        **more,
    }
    return {"DocumentIncarnation": 1, "Events": [event]}
