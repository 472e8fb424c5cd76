package launch

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rooflab/rooflab/internal/secrets"
)

// form is one more way to start a server: its files, and what must come out.
type form struct {
	name    string
	files   map[string]string
	read    string // the file to read
	context Context
	argv    string            // JSON; "" is not looked at
	model   string            // "" is not looked at
	args    map[string]string // option -> Arg, "" is not given
	env     map[string]string // variable -> value, "-" is not set
	refused string            // part of why the program refuses, "" if it takes the words
	noted   string            // ID of a diagnostic
}

func TestMoreWaysToStartAServer(t *testing.T) { runForms(t, forms) }

func runForms(t *testing.T, forms []form) {
	t.Helper()
	for _, c := range forms {
		t.Run(c.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range c.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			s, err := Read(fsys, c.read, c.context)
			if err != nil {
				t.Fatal(err)
			}
			if raw, _ := json.Marshal(s.Argv); c.argv != "" && string(raw) != c.argv {
				t.Errorf("words\n got %s\nwant %s", raw, c.argv)
			}
			if c.model != "" && s.Model != c.model {
				t.Errorf("model %q, want %q", s.Model, c.model)
			}
			for name, want := range c.args {
				if got := s.Arg(name); got != want {
					t.Errorf("--%s is %q, want %q", name, got, want)
				}
			}
			for name, want := range c.env {
				got := "-"
				for _, v := range s.Env {
					if got = "-"; v.Name == name {
						if got = v.Value; v.Unknown {
							got = "(unknown)"
						}
						break
					}
				}
				if got != want {
					t.Errorf("$%s is %q, want %q", name, got, want)
				}
			}
			if (s.Refused != "") != (c.refused != "") || !strings.Contains(s.Refused, c.refused) {
				t.Errorf("refused %q, want %q", s.Refused, c.refused)
			}
			noted := false
			for _, d := range s.Diagnostics {
				noted = noted || d.ID == c.noted
			}
			if c.noted != "" && !noted {
				t.Errorf("diagnostics %v, want %s", s.Diagnostics, c.noted)
			}
		})
	}
}

var forms = []form{
	{name: "unit: a drop-in resets the command and the environment files, prefixes, percent and dollar signs",
		files: map[string]string{
			"v.service": "[Service]\nEnvironment=A=1 \"B=two words\" 'C=it''s'\nEnvironmentFile=/etc/old.env\nExecStart=/usr/bin/vllm serve /old\n",
			"v.service.d/20-new.conf": "[Service]\nEnvironmentFile=\nEnvironmentFile=-/etc/new.env\nExecStart=\n" +
				"ExecStart=-+/opt/venv/bin/vllm serve /srv/m%%1 \\\n  # --enforce-eager \\\n  ; --port 1 \\\n  --served-model-name $$x \"a ${B} b\" \\\n  -tp 4\n",
			"v.service.d/10-early.conf": "[Service]\nEnvironment=A=2\n",
			"etc/new.env":               "A=3\n",
		},
		read: "v.service", argv: `["serve","/srv/m%1","--served-model-name","$x","a two words b","-tp","4"]`, model: "/srv/m%1",
		args: map[string]string{"tensor-parallel-size": "4", "port": "", "enforce-eager": ""}, env: map[string]string{"A": "3", "B": "two words"}},

	{name: "unit: $X of its own is split also inside quotes marks of its value, ${X} and x$X never",
		files: map[string]string{"v.service": "[Service]\nEnvironment=\"OPTS=--port 81 --served-model-name 'a b'\" EMPTY=\n" +
			"ExecStart=/usr/bin/vllm serve /m $OPTS $EMPTY $UNSET --hf-config-path ${EMPTY} --download-dir x$OPTS\n"},
		read: "v.service", argv: `["serve","/m","--port","81","--served-model-name","a b","--hf-config-path","","--download-dir","x$OPTS"]`},

	{name: "unit: an environment file has quotes, backslashes, several lines and comments of its own",
		files: map[string]string{
			"v.service": "[Service]\nEnvironmentFile=/etc/v.env\nExecStart=vllm serve /m\n",
			"etc/v.env": "# c\n; c\nA = \"x y\"  \nB='$HOME \\n'\nC=p q#r  \nD=\"1\\\n2\"\nE=a\\\n  b\nF=\"two\nlines\"\nexport G=1\nH=\"a\"'b'\nI=x\"y\"\nHF_TOKEN=\"hf_secret_value\"\n",
		},
		read: "v.service", env: map[string]string{"A": "x y", "B": `$HOME \n`, "C": "p q#r", "D": "12", "E": "a  b", "F": "two\nlines", "G": "-", "H": "ab", "I": `x"y"`, "HF_TOKEN": secrets.Mask}},

	{name: "unit: a colon keeps dollars, env(1) sets and unsets",
		files: map[string]string{"v.service": "[Service]\nEnvironment=NCCL_PROTO=LL X=1\nExecStart=:/usr/bin/env -u X NCCL_PROTO=Simple vllm serve $HOME\n"},
		read:  "v.service", model: "$HOME", env: map[string]string{"NCCL_PROTO": "Simple", "X": "-"}},

	{name: "script: a blank after the backslash ends the command",
		files: map[string]string{"s.sh": "#!/bin/sh\nvllm serve /m \\ \n  --port 8001\n"},
		read:  "s.sh", argv: `["serve","/m"," "]`, refused: "unrecognised argument"},

	{name: "script: a comment line inside a continued command ends it",
		files: map[string]string{"s.sh": "#!/bin/bash\nexec vllm serve /m \\\n  --port 8001 \\\n  # --enforce-eager \\\n  --max-num-seqs 64\n"},
		read:  "s.sh", args: map[string]string{"port": "8001", "max-num-seqs": "", "enforce-eager": ""}},

	{name: "script: arrays, defaults, conditions, positional parameters, nohup in the background",
		files: map[string]string{"s.sh": "#!/usr/bin/env bash\nset -euo pipefail\n: \"${TP:=4}\"\nARGS=(--tensor-parallel-size \"$TP\")\nif [[ \"${EAGER:-0}\" == 1 ]]; then ARGS+=(--enforce-eager); else ARGS+=(--max-num-seqs 32); fi\n" +
			"set -- --port 8100 \"$@\"\nexport NCCL_P2P_LEVEL=SYS\nnohup vllm serve \"${MODEL:-/srv/a b}\" \"${ARGS[@]}\" \"$@\" > /tmp/log 2>&1 &\n"},
		read: "s.sh", context: Context{Args: []string{"--seed", "7"}}, model: "/srv/a b",
		argv: `["serve","/srv/a b","--tensor-parallel-size","4","--max-num-seqs","32","--port","8100","--seed","7"]`, env: map[string]string{"NCCL_P2P_LEVEL": "SYS"}},

	{name: "script: what only a running shell knows stays a mark",
		files: map[string]string{"s.sh": "N=$(nvidia-smi -L | wc -l)\nvllm serve m -tp $N --host $(hostname -i)\n"},
		read:  "s.sh", model: "m", args: map[string]string{"port": ""}},

	{name: "docker run: a registry with a port, a digest, joined short options, an env file with quotes",
		files: map[string]string{
			"run.sh": "sudo -E docker container run -dit --gpus '\"device=0,1\"' --ipc=host --ulimit memlock=-1 -p8000:8000 -eNCCL_PROTO=LL -e NAME_ONLY --env=X='a b' --env-file v.env \\\n" +
				"  registry.local:5000/mirror/vllm-openai:v0.24.0@sha256:0011 --model m -tp 2\n",
			"v.env": "X=c\nQ=\"quoted\"\n# c\nS='s'  \n",
		},
		read: "run.sh", model: "m", args: map[string]string{"tensor-parallel-size": "2"},
		env: map[string]string{"NCCL_PROTO": "LL", "X": "a b", "Q": `"quoted"`, "S": "'s'  ", "NAME_ONLY": "(unknown)"}},

	{name: "podman run: an entry point that is a shell",
		files: map[string]string{"run.sh": `podman run --rm --device nvidia.com/gpu=all --entrypoint /bin/bash -e TP=2 docker.io/vllm/vllm-openai:v0.25.1 -c 'export NCCL_ALGO=Ring; exec vllm serve "/m x" -tp $TP'` + "\n"},
		read:  "run.sh", argv: `["serve","/m x","-tp","2"]`, env: map[string]string{"NCCL_ALGO": "Ring", "TP": "2"}},

	{name: "compose: lists, defaults, an optional env file, comments after quotes, values of .env passed by name",
		files: map[string]string{
			"compose.yaml": "x-env: &env\n  NCCL_PROTO: LL\n  N: 1\nservices:\n  db:\n    image: postgres\n  llm:\n    image: ${REG:-docker.io}/vllm/vllm-openai:${TAG:?set it}\n    env_file:\n      - path: gone.env\n        required: false\n      - v.env\n" +
				"    environment:\n      <<: *env\n      X: from-environment\n      HF_TOKEN:\n    command: [\"--model\", \"${MODEL-m}\", \"--max-model-len\", \"16k\", \"--served-model-name\", \"a$$b\"]\n",
			".env":  "TAG=v0.24.0\nHF_TOKEN=hf_from_dotenv\n",
			"v.env": "X=from-file\nY=\"a b\" # c\nZ='$TAG'\nW=${TAG}-x # c\n",
		},
		read: "compose.yaml", model: "m", argv: `["--model","m","--max-model-len","16k","--served-model-name","a$b"]`, args: map[string]string{"max-model-len": "16000"},
		env:   map[string]string{"NCCL_PROTO": "LL", "N": "1", "X": "from-environment", "Y": "a b", "Z": "$TAG", "W": "v0.24.0-x", "HF_TOKEN": secrets.Mask},
		noted: "env_file_absent"},

	{name: "quadlet: a drop-in, arguments of podman, quotes of an env file stay",
		files: map[string]string{
			"v.container":              "[Container]\nImage=docker.io/vllm/vllm-openai:v0.25.1\nEnvironmentFile=%h/v.env\nEnvironment=A=1\nExec=--model m \\\n  --port 80\n[Service]\nEnvironment=A=host\n",
			"v.container.d/10-tp.conf": "[Container]\nExec=--model m --port 81 -tp 2\nPodmanArgs=--env B=2 --shm-size 8g\n",
			"home/v.env":               "C=\"x\"\n",
		},
		read: "v.container", argv: `["--model","m","--port","81","-tp","2"]`, env: map[string]string{"A": "1", "B": "2", "C": `"x"`}},

	{name: "kubernetes: a shell, variables of the pod and of the shell, order of variables",
		files: map[string]string{"pod.yaml": "apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  template:\n    spec:\n      initContainers:\n      - {name: get, image: busybox, command: [sh, -c, 'vllm serve wrong']}\n      containers:\n" +
			"      - name: proxy\n        image: nginx\n      - name: server\n        image: vllm/vllm-openai:v0.26.0\n        command: [/bin/sh, -c]\n        args:\n        - |\n          exec vllm serve $(MODEL) \\\n            -tp $TP --served-model-name $$(X) \"$(LATER)\"\n" +
			"        env:\n        - {name: MODEL, value: /m}\n        - {name: TWICE, value: $(MODEL)-$(LATER)}\n        - {name: LATER, value: l}\n        - {name: TP, value: \"8\"}\n        - {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}\n"},
		read: "pod.yaml", model: "/m", args: map[string]string{"tensor-parallel-size": "8"}, env: map[string]string{"TWICE": "/m-$(LATER)", "KEY": secrets.Mask, "LATER": "l"}},

	{name: "slurm: apptainer instead of pyxis",
		files: map[string]string{"job.sh": "#!/bin/bash\n#SBATCH -N 1\nexport NCCL_PROTO=LL\nsrun --ntasks=1 apptainer exec --nv --env X=1,Y=2 --bind /srv vllm-openai_v0.24.0.sif vllm serve /srv/m -tp $SLURM_GPUS_ON_NODE\n"},
		read:  "job.sh", model: "/srv/m", context: Context{Env: map[string]string{"SLURM_GPUS_ON_NODE": "8"}}, args: map[string]string{"tensor-parallel-size": "8"},
		env: map[string]string{"NCCL_PROTO": "LL", "X": "1", "Y": "2"}},

	{name: "config file: the command line wins, false, lists and maps; with an equals sign it is never read",
		files: map[string]string{
			"s.sh":   "vllm serve m --config c.yaml --max-num-seqs 64\n",
			"c.yaml": "max-num-seqs: 16\nenable-prefix-caching: false\nenforce-eager: false\nserved-model-name: [a, b]\ncompilation-config: {cudagraph_mode: NONE}\nmax_model_len: 32K\nport: '81'\n",
		},
		read: "s.sh", args: map[string]string{"max-num-seqs": "64", "enable-prefix-caching": "false", "served-model-name": `["a","b"]`, "compilation-config": `{"cudagraph_mode":"NONE"}`, "max-model-len": "32768", "port": "81"}},
	{name: "config file with an equals sign",
		files: map[string]string{"s.sh": "vllm serve m --config=c.yaml --max-num-seqs 64\n", "c.yaml": "port: 81\n"},
		read:  "s.sh", args: map[string]string{"port": "", "max-num-seqs": "64"}, noted: "config_file_ignored"},

	{name: "arguments: dotted options replace JSON wherever it stands, abbreviations, sizes, lists end at an option",
		files: map[string]string{"s.sh": `vllm serve m --compilation-config.cudagraph_mode=NONE --cc-unknown 1 --compilation-config '{"level":3}' --compilation-config.pass_config.enable_fusion true --tensor-p 2 --gpu-mem .5 --max-num-b 16K --max-model-l 16k --served_model_name a b --no-enable-prefix --limit-mm-per-prompt.image 2 --hf-overrides '{"a": 1e3}' ` + "\n"},
		read:  "s.sh", args: map[string]string{"compilation-config": `{"cudagraph_mode":"NONE","pass_config":{"enable_fusion":true}}`, "tensor-parallel-size": "2", "max-num-batched-tokens": "16384", "max-model-len": "16000",
			"served-model-name": `["a","b"]`, "enable-prefix-caching": "false", "limit-mm-per-prompt": `{"image":2}`}},

	{name: "python -m of old, unbuffered, with a module path and repeated options",
		files: map[string]string{"s.sh": "CUDA_VISIBLE_DEVICES=0,1 PYTHONPATH=/x python3.10 -u -X dev -m vllm.entrypoints.openai.api_server --model=m --tensor_parallel_size=2 --max-num-seqs 8 --max-num-seqs=16 --disable-log-requests\n"},
		read:  "s.sh", context: Context{Version: "0.6.3"}, model: "m", args: map[string]string{"tensor-parallel-size": "2", "max-num-seqs": "16", "disable-log-requests": "true"}, env: map[string]string{"CUDA_VISIBLE_DEVICES": "0,1"}},

	{name: "make: its variables first, then the shell's, dollars, a comment in a variable, continued lines",
		files: map[string]string{"Makefile": "MODEL ?= /srv/m # the model\nTP := 4\nexport NCCL_PROTO = LL\nARGS = --tensor-parallel-size $(TP) \\\n  --max-num-seqs $(SEQS)\nSEQS = 64\nARGS += --port 81\n.PHONY: build serve\nbuild:\n\t@echo build vllm serve\nserve: build\n" +
			"\t@mkdir -p logs\n\tHF_HOME=$$HOME/hf X='$$A' exec vllm serve $(MODEL) ${ARGS} \\\n\t  --served-model-name \"$@-$(shell hostname)\"\n"},
		read: "Makefile", context: Context{Env: map[string]string{"HOME": "/home/me"}},
		argv: `["serve","/srv/m","--tensor-parallel-size","4","--max-num-seqs","64","--port","81","--served-model-name","serve-\u003cruntime:shell\u003e"]`,
		env:  map[string]string{"NCCL_PROTO": "LL", "HF_HOME": "/home/me/hf", "X": "$A"}},

	{name: "supervisord: environment of both sections, percent signs, comments, a command over several lines",
		files: map[string]string{"vllm.conf": "[supervisord]\nenvironment=MODEL=\"/srv/m\",NCCL_PROTO=\"LL\"\n\n[program:web]\ncommand=nginx\n\n[program:vllm]\n; comment\ncommand=/opt/venv/bin/vllm serve %(ENV_MODEL)s\n    --tensor-parallel-size 8 ; not this\n    --served-model-name \"%(program_name)s 100%%\"\n" +
			"environment=NCCL_PROTO=\"Simple\",HF_TOKEN='hf_x,y1234',LIST=\"a,b\"\n"},
		read: "vllm.conf", argv: `["serve","/srv/m","--tensor-parallel-size","8","--served-model-name","vllm 100%"]`,
		env: map[string]string{"NCCL_PROTO": "Simple", "HF_TOKEN": secrets.Mask, "LIST": "a,b", "MODEL": "/srv/m"}},

	{name: "sglang: aliases, equals signs, an image with its own words",
		files: map[string]string{"run.sh": "docker run --gpus all -e SGLANG_TORCH_PROFILER_DIR=/prof lmsysorg/sglang:v0.5.6 python3 -m sglang.launch_server --model m --tp=8 --ep 8 --enable-dp-attention --cuda-graph-bs 1 2 4 --disable-cuda-graph --max-running-requests 64\n"},
		read:  "run.sh", model: "m", args: map[string]string{"tp-size": "8", "ep-size": "8", "enable-dp-attention": "true", "cuda-graph-bs": "[1,2,4]", "disable-cuda-graph": "true", "max-running-requests": "64"}},
}
