/**
 * What ADK reads of an event without a check, and the removal of what it would
 * fail on. Only the member that has another form is removed, at any depth.
 */

export type Json = Record<string, unknown>;

/** A type of JSON, a list of items, a map with free names, or an object with members, of which others are free. */
type Shape =
  | 'string'
  | 'number'
  | 'boolean'
  | 'object'
  | {readonly items: Shape}
  | {readonly values: Shape}
  | {readonly members: Readonly<Record<string, Shape>>};

const CONTENT: Shape = {
  members: {
    role: 'string',
    parts: {
      items: {
        members: {
          text: 'string',
          thought: 'boolean',
          functionCall: {
            members: {id: 'string', name: 'string', args: 'object'},
          },
          functionResponse: {
            members: {id: 'string', name: 'string', response: 'object'},
          },
          inlineData: {members: {mimeType: 'string', data: 'string'}},
          fileData: {members: {mimeType: 'string', fileUri: 'string'}},
          executableCode: 'object',
          codeExecutionResult: 'object',
        },
      },
    },
  },
};

const EVENT: Shape = {
  members: {
    content: CONTENT,
    branch: 'string',
    isolationScope: 'string',
    longRunningToolIds: {items: 'string'},
    usageMetadata: {
      members: {
        promptTokenCount: 'number',
        candidatesTokenCount: 'number',
        totalTokenCount: 'number',
      },
    },
    customMetadata: 'object',
    nodeInfo: {members: {path: 'string', outputFor: {items: 'string'}}},
    startTime: 'number',
    endTime: 'number',
    compactedContent: 'string',
    actions: {
      members: {
        skipSummarization: 'boolean',
        artifactDelta: {values: 'number'},
        transferToAgent: 'string',
        escalate: 'boolean',
        requestedAuthConfigs: {values: 'object'},
        requestedToolConfirmations: {
          values: {members: {hint: 'string', confirmed: 'boolean'}},
        },
        agentState: 'object',
        endOfAgent: 'boolean',
      },
    },
  },
};

/** Removes from the JSON of an event what ADK cannot read, and adds its paths to `omitted`. */
export function removeUnreadable(event: Json, omitted: string[]): void {
  fits(event, EVENT, '', omitted);
}

/** Whether ADK can read the value of `path`, after the removal of what it cannot read inside. */
function fits(
  value: unknown,
  shape: Shape,
  path: string,
  omitted: string[],
): boolean {
  if (typeof shape === 'string') {
    return shape === 'object' ? isObject(value) : typeof value === shape;
  }
  if ('items' in shape) {
    return Array.isArray(value) && fitItems(value, shape.items, path, omitted);
  }
  if (!isObject(value)) {
    return false;
  }
  for (const [name, member] of Object.entries(value)) {
    const expected = 'values' in shape ? shape.values : own(shape, name);
    const at = path ? `${path}.${name}` : name;
    // A null in a member that ADK names says that it is not set.
    const unset = member === null && 'members' in shape;
    if (expected && !unset && !fits(member, expected, at, omitted)) {
      delete value[name];
      omitted.push(at);
    }
  }
  return true;
}

function own(
  {members}: {readonly members: Readonly<Record<string, Shape>>},
  name: string,
): Shape | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

/** As `fits`, of a list, which loses the items that ADK cannot read. */
function fitItems(
  list: unknown[],
  item: Shape,
  path: string,
  omitted: string[],
): boolean {
  let kept = 0;
  for (const [at, value] of list.entries()) {
    if (fits(value, item, `${path}[${at}]`, omitted)) {
      list[kept++] = value;
    }
  }
  if (kept < list.length) {
    list.length = kept;
    omitted.push(`items of ${path}`);
  }
  return true;
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
