/** An ADK event with every field set. */

import {createEvent, createEventActions, type Event} from '@google/adk';

const FREE = {
  none: null,
  int: 2 ** 53 - 1,
  float: 0.1,
  text: 'ü\u2028\u{1f600}',
  list: [null, [1, {a: []}]],
  '': '',
};

/** Bytes whose base64 differs between the alphabets. */
const BYTES = Buffer.from([0xff, 0xfe, 0xfb, 0x00, 0x3e, 0x3f, 0xff]);

/** Every field that ADK's types name, and some that they do not; no `temp:` keys. */
export function fullEvent(timestamp = 1_795_190_851_250.9241): Event {
  const credential = {
    authType: 'openIdConnect',
    oauth2: {clientId: 'id', clientSecret: 'secret', expiresAt: 1_800_000_000},
  };
  const authConfig = {
    authScheme: {type: 'openIdConnect', scopes: ['a']},
    rawAuthCredential: credential,
    exchangedAuthCredential: credential,
    credentialKey: 'k',
  };
  return createEvent({
    id: 'event-1',
    invocationId: 'invocation-1',
    author: 'root',
    branch: 'root.one.two',
    timestamp,
    content: {
      role: 'model',
      parts: [
        {text: 'plain'},
        {
          text: 'thought',
          thought: true,
          thoughtSignature: BYTES.toString('base64'),
        },
        {
          inlineData: {
            mimeType: 'image/png',
            data: BYTES.toString('base64'),
            displayName: 'a',
          },
        },
        {
          inlineData: {
            mimeType: 'image/png',
            data: BYTES.toString('base64url'),
          },
        },
        {fileData: {mimeType: 'text/plain', fileUri: 'gs://bucket/file'}},
        {
          functionCall: {
            id: 'c1',
            name: 'f',
            args: {snake_case: 1, thinking: 'x', ...FREE},
          },
        },
        {
          functionResponse: {
            id: 'c1',
            name: 'f',
            response: {mime_type: 'x', ...FREE},
          },
        },
        {executableCode: {code: '1+1', language: 'PYTHON'}},
        {codeExecutionResult: {outcome: 'OUTCOME_OK', output: '2'}},
        {videoMetadata: {startOffset: '1s', endOffset: '2s', fps: 1.5}},
      ],
    },
    groundingMetadata: {
      webSearchQueries: ['q'],
      groundingChunks: [{web: {uri: 'u', title: 't'}}],
    },
    citationMetadata: {citations: [{startIndex: 1, endIndex: 2, uri: 'u'}]},
    turnComplete: true,
    errorCode: 'CODE',
    errorMessage: 'message',
    interrupted: true,
    customMetadata: {...FREE},
    usageMetadata: {
      promptTokenCount: 1,
      candidatesTokenCount: 2,
      totalTokenCount: 3,
    },
    finishReason: 'STOP',
    liveSessionResumptionUpdate: {
      newHandle: 'h',
      resumable: true,
      lastConsumedClientMessageIndex: '1',
    },
    goAway: {timeLeft: '1s'},
    inputTranscription: {text: 'in', finished: true},
    outputTranscription: {text: 'out', finished: false},
    interactionId: 'interaction',
    modelVersion: 'model-1',
    liveSessionId: 'live',
    longRunningToolIds: ['c', 'a', 'b'],
    output: {...FREE},
    route: ['one', 2, true],
    nodeInfo: {path: 'wf.child.0', outputFor: ['wf'], messageAsOutput: true},
    isolationScope: 'scope',
    isCompacted: true,
    startTime: 1,
    endTime: 2,
    compactedContent: 'summary',
    isScratchpad: true,
    aFieldOfTheFuture: {nested: [1, null]},
    actions: createEventActions({
      skipSummarization: true,
      stateDelta: {
        'app:a': FREE,
        'user:u': null,
        plain: [1.5, 1, true, '1'],
        'app:': 0,
        'user:': '',
        'other:x': {},
      },
      artifactDelta: {'a.txt': 3},
      transferToAgent: 'two',
      escalate: true,
      requestedAuthConfigs: {c1: authConfig},
      requestedToolConfirmations: {
        c1: {hint: 'sure?', confirmed: false, payload: FREE},
      },
      agentState: {...FREE},
      endOfAgent: true,
    } as Parameters<typeof createEventActions>[0]),
  } as unknown as Parameters<typeof createEvent>[0]);
}
