package launch

import (
	"encoding/json"
	"fmt"
)

// Answers reads the bodies of GET /version and GET /v1/models; nil for one that was not asked.
func Answers(version, models []byte) (HTTP, error) {
	var h HTTP
	if version != nil {
		var v struct {
			Version string `json:"version"`
		}
		if err := json.Unmarshal(version, &v); err != nil {
			return HTTP{}, fmt.Errorf("read answer of /version: %w", err)
		}
		h.Version = v.Version
	}
	if models != nil {
		var m struct {
			Data []struct {
				ID          string `json:"id"`
				Root        string `json:"root"`
				MaxModelLen int64  `json:"max_model_len"`
			} `json:"data"`
		}
		if err := json.Unmarshal(models, &m); err != nil {
			return HTTP{}, fmt.Errorf("read answer of /v1/models: %w", err)
		}
		if len(m.Data) > 0 {
			h.Model, h.ServedName, h.MaxModelLen = m.Data[0].Root, m.Data[0].ID, m.Data[0].MaxModelLen
		}
	}
	return h, nil
}
