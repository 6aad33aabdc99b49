// Package scripted has a model that needs no network.
package scripted

import (
	"context"
	"iter"

	"google.golang.org/adk/v2/model"
	"google.golang.org/genai"
)

// Model answers a request with the content that it returns. nil answers nothing.
type Model func(request *model.LLMRequest) *genai.Content

var _ model.LLM = Model(nil)

// Name returns the name of the model.
func (m Model) Name() string { return "scripted" }

// GenerateContent yields one answer.
func (m Model) GenerateContent(_ context.Context, request *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		if content := m(request); content != nil {
			yield(&model.LLMResponse{Content: content, TurnComplete: true}, nil)
		}
	}
}

// LastText returns the text of the newest content of a request that a user has sent, or "".
func LastText(request *model.LLMRequest) string {
	for at := len(request.Contents) - 1; at >= 0; at-- {
		content := request.Contents[at]
		if content.Role != genai.RoleUser {
			continue
		}
		for _, part := range content.Parts {
			if part.Text != "" {
				return part.Text
			}
		}
	}
	return ""
}

// Says returns an answer of text.
func Says(text string) *genai.Content { return genai.NewContentFromText(text, genai.RoleModel) }

// Calls returns an answer that calls a tool.
func Calls(tool string, args map[string]any) *genai.Content {
	return genai.NewContentFromFunctionCall(tool, args, genai.RoleModel)
}
