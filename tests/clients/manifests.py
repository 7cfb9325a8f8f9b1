"""What the sessions create."""

from typing import Any

import yaml

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web, tier: front}}
data: {color: blue, size: "5"}
"""

PAIR = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {app: web}}
data: {v: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, labels: {app: db}}
data: {v: "2", w: "2"}
"""

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: solo, labels: {app: web}}
spec:
  automountServiceAccountToken: false
  containers: [{name: main, image: "example.com/main:1", resources: {requests: {cpu: 1}}}]
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "example.com/main:1", ports: [{containerPort: 80}]}
"""

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]
"""

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  suspend: true
  completions: 3
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/main:1"}]
"""

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: GADGETS.clients.example.com}
spec:
  group: clients.example.com
  scope: Namespaced
  names: {plural: GADGETS, singular: GADGET, kind: KIND, shortNames: [SHORT], categories: [widgets]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: A gadget of one kind or another.
        type: object
        required: [spec]
        properties:
          spec:
            description: What the gadget shall be.
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 9, description: How large it is.}
              color: {type: string, enum: [red, blue], default: blue}
              replicas: {type: integer}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, count: {type: integer, default: 1}}
            x-kubernetes-validations:
            - {rule: "self.color != 'red' || self.size < 5", message: red gadgets are small}
            - {rule: "self.size >= oldSelf.size", message: a gadget never shrinks}
          status:
            type: object
            properties:
              replicas: {type: integer}
              phase: {type: string}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields: [{jsonPath: .spec.color}]
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Phase, type: string, jsonPath: .status.phase}
    - {name: First, type: string, jsonPath: ".spec.parts[0].name", priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
"""


def definition(name: str) -> str:
    """Return a definition of a kind that no other session has: definitions have no namespace."""
    text = DEFINITION.replace("GADGETS", f"{name}s").replace("GADGET", name).replace("KIND", name.capitalize())
    return text.replace("SHORT", name[:3])


def gadget(name: str, spec: str, *, kind: str) -> str:
    """Return a gadget."""
    return f"apiVersion: clients.example.com/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def load(manifest: str) -> dict[str, Any]:
    """Return a manifest as an object."""
    return yaml.safe_load(manifest)
