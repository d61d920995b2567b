"""The labels and annotations by which an LLMService's objects are found. Pure."""

SERVICE_LABEL = "serving.windlass.dev/service"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "windlass"
SERVER, DOWNLOAD, INSPECT = "server", "download", "inspect"  # components, and the containers that do their work

RESULT_ANNOTATION = "serving.windlass.dev/inspect-result"
FINISHED_ANNOTATION = "serving.windlass.dev/inspect-finished"
JOB_ANNOTATION = "serving.windlass.dev/inspect-job"  # on the Service: the uid of the Job whose finding it keeps
