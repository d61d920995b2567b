{{- /* Each object asks for the name, so old values are refused before a template meets one that is not there. */ -}}
{{- /* One name for everything. Clients look for the Service windlass-license-server, so the default has no release in it. */ -}}
{{- define "license-server.name" -}}
{{- include "license-server.renamed" . -}}
{{- $name := "windlass-license-server" -}}
{{- with .Values.nameOverride -}}
{{- $name = ternary $.Release.Name (printf "%s-%s" $.Release.Name .) (contains . $.Release.Name) -}}
{{- end -}}
{{- .Values.fullnameOverride | default $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- /* Values of earlier charts, refused with the name that they have now; --reuse-values brings earlier defaults. */ -}}
{{- define "license-server.renamed" -}}
{{- $unset := "; where you never set it, upgrade with --reset-then-reuse-values" -}}
{{- if hasKey .Values "replicas" }}{{ fail (print "the value replicas is called replicaCount" $unset) }}{{ end -}}
{{- if hasKey .Values.image "pullSecrets" }}
{{- fail (print "the value image.pullSecrets is called imagePullSecrets" $unset) }}
{{- end -}}
{{- end -}}

{{- /* Serving pods look in kube-system first. A release of an earlier chart in `default` stays where its license is. */ -}}
{{- define "license-server.namespace" -}}
{{- if .Values.namespace -}}
{{ .Values.namespace }}
{{- else if ne .Release.Namespace "default" -}}
{{ .Release.Namespace }}
{{- else -}}
{{- $old := lookup "apps/v1" "Deployment" "default" (include "license-server.name" .) -}}
{{- $labels := dig "metadata" "labels" dict ($old | default dict) -}}
{{ get $labels "app.kubernetes.io/instance" | eq .Release.Name | ternary "default" "kube-system" }}
{{- end -}}
{{- end -}}

{{- define "license-server.selector" -}}
app.kubernetes.io/name: windlass-license-server
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "license-server.labels" -}}
{{ include "license-server.selector" . }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/component: license-server
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "license-server.image" -}}
{{- with .Values.global.repository }}{{ printf "%s/" . }}{{ end }}{{ .Values.image.repository }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- /* The Secret that holds the admin token; empty when none is asked for. */ -}}
{{- define "license-server.adminSecret" -}}
{{- if .Values.auth.existingSecret -}}
{{- if .Values.auth.adminToken }}{{ fail "auth.adminToken and auth.existingSecret are both set; keep one of them" }}{{ end -}}
{{ .Values.auth.existingSecret }}
{{- else if or (kindIs "invalid" .Values.auth.adminToken) .Values.auth.adminToken -}}
{{ include "license-server.name" . }}-admin
{{- end -}}
{{- end -}}

{{- define "license-server.adminSecretKey" -}}
{{- if .Values.auth.existingSecret }}{{ .Values.auth.existingSecretKey }}{{ else }}token{{ end -}}
{{- end -}}

{{- define "license-server.scheme" -}}{{ .Values.tls.enabled | ternary "https" "http" }}{{- end -}}

{{- define "license-server.probe" -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ include "license-server.scheme" .root | upper }}}
{{- end -}}

{{/* true where the server asks the API server, for the election or for the pods' tokens; empty where it does not. */}}
{{- define "license-server.asksApiServer" -}}
{{- if or .Values.election.lease (eq .Values.leases.auth "kubernetes") }}true{{ end }}
{{- end }}
