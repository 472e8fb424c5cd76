package secrets

import "testing"

func TestSecretsInsideTextsAreMasked(t *testing.T) {
	for text, want := range map[string]string{
		"http://bob:pw@proxy:3128/x":               "http://***@proxy:3128/x",
		"redis://:p@ss@host/0":                     "redis://***@host/0",
		"https://h/x?sig=abc&v=1":                  "https://h/x?sig=***&v=1",
		"http://h/?a=1&apikey=abc":                 "http://h/?a=1&apikey=***",
		"Authorization: Bearer abc.def":            "Authorization: ***",
		`{"api_key": "abc", "n": 3}`:               `{"api_key": "***", "n": 3}`,
		"server --api-key abc --port 8000":         "server --api-key *** --port 8000",
		`{"max_num_batched_tokens":8192,"a":"b"}`:  `{"max_num_batched_tokens":8192,"a":"b"}`,
		"tcp://10.0.0.1:5555":                      "tcp://10.0.0.1:5555",
		"user@host:/srv/models":                    "user@host:/srv/models",
		"--tokenizer-mode auto":                    "--tokenizer-mode auto",
		"Authorization: token abc":                 "Authorization: ***",
		`{"Authorization":"Bearer abc", "n":3}`:    `{"Authorization":"***", "n":3}`,
		"curl -H 'authorization:Basic abc' h":      "curl -H 'authorization:***' h",
		"x-api-key:abc,y=1":                        "x-api-key:***,y=1",
		"--header=X-Api-Key=abc":                   "--header=X-Api-Key=***",
		`--args "--hf-token abc --port 80"`:        `--args "--hf-token *** --port 80"`,
		`--api-key "two words" --port 80`:          `--api-key "***" --port 80`,
		`{"password": "two words", "n": 3}`:        `{"password": "***", "n": 3}`,
		`{\"authToken\":\"abc\",\"n\":3}`:          `{\"authToken\":\"***\",\"n\":3}`,
		"PGPASS=abc vllm serve m":                  "PGPASS=*** vllm serve m",
		"bob:pw@db:5432/x":                         "***@db:5432/x",
		"bob:p@ss@tcp(db:3306)/x":                  "***@tcp(db:3306)/x",
		"host=db user=bob password=pw":             "host=db user=bob password=***",
		"registry:5000/vllm:v1@sha256:0011":        "registry:5000/vllm:v1@sha256:0011",
		"vllm/vllm-openai:v1@sha256:0011":          "vllm/vllm-openai:v1@sha256:0011",
		"sk-0123456789abcdef0123":                  "***",
		"hf_0123456789abcdefghij":                  "***",
		"x ghp_0123456789abcdefghij y":             "x *** y",
		"nvapi-0123456789abcdefghij":               "***",
		"AKIA0123456789ABCDEF":                     "***",
		"/srv/sk-learn/task-0123456789abcdefghij":  "/srv/sk-learn/task-0123456789abcdefghij",
		"hf_transfer_of_large_files":               "hf_transfer_of_large_files",
		`{"pass_config":{"fuse_norm_quant":true}}`: `{"pass_config":{"fuse_norm_quant":true}}`,
	} {
		if got := Clean(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestNamesOfSecretsAreToldByWholeWords(t *testing.T) {
	for _, name := range []string{"HF_TOKEN", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "GH_PAT", "GITLAB_PAT", "DB_PASS", "PGPASS", "PGPASSWORD", "MYSQL_PWD", "PASS",
		"S3_CREDS", "REGISTRY_CRED", "GOOGLE_APPLICATION_CREDENTIALS", "SENTRY_DSN", "API_KEYS", "--hf-token", "--api_key", "--x.auth-token", "accessToken", "apiKey", "X-Api-Key", "Authorization"} {
		if !Name(name) {
			t.Errorf("%s is taken for harmless", name)
		}
	}
	for _, name := range []string{"MAX_NUM_BATCHED_TOKENS", "--max-num-batched-tokens", "maxNumBatchedTokens", "TIKTOKEN_ENCODINGS_BASE", "--tokenizer-mode", "BYPASS", "VLLM_BYPASS", "PATH",
		"LD_LIBRARY_PATH", "PWD", "OLDPWD", "pass_config", "keys_to_ignore_at_inference", "KEYBOARD", "--ssl-keyfile", "CREDIT", "DSNAME", "COMPASS", "PATTERN", "TOKENIZERS_PARALLELISM",
		"eos_token_id", "image_token_index", "--return-tokens-as-token-ids", "num_key_value_heads", "linear_key_head_dim", "linear_num_key_heads", ""} {
		if Name(name) {
			t.Errorf("%s is taken for a secret", name)
		}
	}
}
