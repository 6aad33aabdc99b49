/** The applications of the store, the users of one, and the way to a session whose address is known. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {ApiError, call, isAbort, messageOf} from '../api.js';
import {go, href, sessionsOf} from '../route.js';
import {Empty, Notice, Text} from './common.js';

const PAGE_SIZE = 200;

/** Reads a list page by page. `read` returns the names and the next token. */
function usePages(read: (token: string, abort: AbortSignal) => Promise<[string[], string]>) {
    const names = useSignal<string[]>([]);
    const pageToken = useSignal<string | undefined>(undefined);
    const error = useSignal<unknown>(undefined);
    const more = async (abort: AbortSignal) => {
        try {
            const [page, next] = await read(pageToken.value ?? '', abort);
            names.value = [...names.value, ...page];
            pageToken.value = next;
            error.value = undefined;
        } catch (failure) {
            error.value = isAbort(failure) ? error.value : failure;
        }
    };
    useEffect(() => {
        const abort = new AbortController();
        void more(abort.signal);
        return () => abort.abort();
    }, []);
    return {
        names: names.value,
        error: error.value,
        isRead: pageToken.value !== undefined,
        more: pageToken.value ? () => void more(new AbortController().signal) : undefined,
    };
}

export function ApplicationsView() {
    const pages = usePages(async (pageToken, abort) => {
        const request = {pageSize: PAGE_SIZE, pageToken};
        const page = await call('AdminService/ListApplications', request, abort);
        return [(page.applications ?? []).map(it => it.appName ?? ''), page.nextPageToken ?? ''];
    });
    const {error} = pages;
    const isDenied = error instanceof ApiError && error.code === 'permission_denied';
    return (
        <div class="page">
            <h1>Applications</h1>
            {error !== undefined && !isDenied && <Notice>{messageOf(error)}</Notice>}
            {isDenied && (
                <Notice kind="info">
                    You may not list applications. Name the one that you may read.
                </Notice>
            )}
            {pages.isRead && pages.names.length === 0 && (
                <Empty title="Nothing is stored yet">
                    <p>
                        Connect an agent, or make sample sessions: <code>sessiond demo</code>
                    </p>
                </Empty>
            )}
            <Names
                names={pages.names}
                more={pages.more}
                to={appName => href(sessionsOf(appName))}
            />
            <OpenForm />
        </div>
    );
}

export function UsersView({appName}: {appName: string}) {
    const pages = usePages(async (pageToken, abort) => {
        const request = {appName, pageSize: PAGE_SIZE, pageToken};
        const page = await call('AdminService/ListUsers', request, abort);
        return [(page.users ?? []).map(it => it.userId ?? ''), page.nextPageToken ?? ''];
    });
    return (
        <div class="page">
            {pages.error !== undefined && <Notice>{messageOf(pages.error)}</Notice>}
            {pages.isRead && pages.names.length === 0 && (
                <Empty title="No users">
                    <p>The application has neither sessions nor state of users.</p>
                </Empty>
            )}
            <Names
                names={pages.names}
                more={pages.more}
                to={userId => href(sessionsOf(appName, userId))}
            />
        </div>
    );
}

interface NamesProps {
    names: string[];
    to: (name: string) => string;
    more: (() => void) | undefined;
}

function Names({names, to, more}: NamesProps) {
    return (
        <>
            <ul class="names">
                {names.map(name => (
                    <li key={name}>
                        <a href={to(name)}>
                            <Text text={name} />
                        </a>
                    </li>
                ))}
            </ul>
            {more && <button onClick={more}>More</button>}
        </>
    );
}

/** Opens a session by its address, or an application. A session id alone is enough if it is unique. */
function OpenForm() {
    const error = useSignal('');
    const open = async (event: SubmitEvent) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget as HTMLFormElement);
        const [appName = '', userId = '', sessionId = ''] = ['app', 'user', 'session'].map(name =>
            String(form.get(name) ?? ''),
        );
        if (!sessionId) {
            go(sessionsOf(appName, userId));
            return;
        }
        const request = {key: {appName, userId, sessionId}, withoutState: true};
        try {
            const {key} = (await call('SessionService/GetSession', request)).session ?? {};
            const found = {appName: key?.appName ?? '', userId: key?.userId ?? '', sessionId};
            go({view: 'session', ...found});
        } catch (failure) {
            error.value = messageOf(failure);
        }
    };
    return (
        <form class="open-form" onSubmit={event => void open(event as unknown as SubmitEvent)}>
            <h2>Open</h2>
            {['app', 'user', 'session'].map(name => (
                <label class="field" key={name}>
                    {{app: 'Application', user: 'User id', session: 'Session id'}[name]}
                    <input name={name} autocomplete="off" />
                </label>
            ))}
            <button class="primary">Open</button>
            {error.value && <Notice>{error.value}</Notice>}
        </form>
    );
}
