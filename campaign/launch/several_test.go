package launch

import (
	"strings"
	"testing"
	"testing/fstest"
)

// A file may start several servers, such as one for prefill and one for decode.
func TestEveryServerOfAFileIsRead(t *testing.T) {
	for name, text := range map[string]string{
		"compose.yaml": `services:
  proxy: {image: nginx}
  prefill:
    image: vllm/vllm-openai:v0.24.0
    command: --model m --port 8100 -tp 4
    environment: {NCCL_PROTO: LL}
  decode:
    image: vllm/vllm-openai:v0.24.0
    command: --model m --port 8200 -tp 8
  broken:
    image: ${NOBODY:?set it}
`,
		"pods.yaml": `kind: Deployment
metadata: {name: prefill}
spec: {template: {spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.24.0", args: [--config, /etc/v.yaml], env: [{name: NCCL_PROTO, value: LL}], volumeMounts: [{name: c, mountPath: /etc}]}], volumes: [{name: c, configMap: {name: p}}]}}}
---
kind: Deployment
metadata: {name: decode}
spec: {template: {spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.24.0", args: [--config, /etc/v.yaml], volumeMounts: [{name: c, mountPath: /etc}]}], volumes: [{name: c, configMap: {name: d}}]}}}
---
kind: ConfigMap
metadata: {name: p}
data: {v.yaml: "model: m\nport: 8100\ntensor-parallel-size: 4\n"}
---
kind: ConfigMap
metadata: {name: d}
data: {v.yaml: "model: m\nport: 8200\ntensor-parallel-size: 8\n"}
`,
		"supervisord.conf": "[supervisord]\n[program:prefill]\nenvironment=NCCL_PROTO=LL\ncommand=vllm serve m --port 8100 -tp 4\n[program:decode]\ncommand=vllm serve m --port 8200 -tp 8\n",
		"Makefile":         "prefill:\n\tNCCL_PROTO=LL vllm serve m --port 8100 -tp 4\ndecode:\n\tvllm serve m --port 8200 -tp 8\n",
	} {
		s, err := Read(fstest.MapFS{name: {Data: []byte(text)}}, name, Context{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(s.Others) != 1 || !strings.HasPrefix(s.Service, "prefill") || s.TensorParallel() != 4 || s.Getenv("NCCL_PROTO") != "LL" {
			t.Errorf("%s: first %+v", name, s)
			continue
		}
		if o := s.Others[0]; !strings.HasPrefix(o.Service, "decode") || o.TensorParallel() != 8 || o.Getenv("NCCL_PROTO") != "" || o.Model != "m" {
			t.Errorf("%s: other %+v", name, o)
		}
		process, err := Process([]byte("python\x00/usr/bin/vllm\x00serve\x00m\x00--port\x008200\x00-tp\x008\x00"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if c := s.Closest(process); !strings.HasPrefix(c.Service, "decode") || len(c.Others) != 1 || !strings.HasPrefix(c.Others[0].Service, "prefill") {
			t.Errorf("%s: closest is %s", name, c.Service)
		}
		if c := s.Closest(Server{}); !strings.HasPrefix(c.Service, "prefill") {
			t.Errorf("%s: without a process %s", name, c.Service)
		}
	}
}
